"""How the loops of sums of products are chosen: tiles, blocks and prefetches."""

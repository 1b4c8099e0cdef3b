"""Contractions: the model of what a tile costs, in cycles (``contractions/tiles.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class TileCosts:
    """Cycles, and how much longer steps take for where their loads are."""

    page_bytes: int = 4096
    """Bytes from one step to the next from which on each step is on a page of its own."""

    near_bytes: int = 256
    """Bytes from one step to the next up to which processors see by themselves what comes next."""

    latency: int = 4
    """Cycles from a fused multiply-add to the next one of the same sum."""

    issued: int = 2
    """Multiply-adds, and loads, of whole registers that begin in a cycle."""

    issued_halves: int = 2
    """The same of halves of registers: as many, or twice where units are no wider."""

    scalar_loads: float = 1.25
    """Loads that a scalar counts as where multiply-adds do not take it from memory by themselves: it is an instruction
    of its own then, and needs a register until its last multiply-add. Tiles of several vectors load fewer of them."""

    broadcast_loads: float = 1.1
    """The same where they do. Beside one vector every sum loads a scalar, as many as begin in a cycle: tiles of 24 sums
    then take a twelfth longer than those of three vectors and eight points."""

    lone_vector_penalty: float = 1.25
    """How much longer steps of products that are added up in pairs take beside one vector: with AVX2 convolutions of 14
    rows beside one take a tenth longer (3x3) to two fifths (1x1) than those of 5 beside two, of which all sums stay in
    registers."""

    tile_product: int = 16
    """Cycles of a product of two tile registers: a row a cycle."""

    tile_latency: int = 52
    """Cycles from a product of two tile registers to the next one of the same sums."""

    tile_load: int = 8
    """Cycles for loading a tile register: two rows a cycle."""

    tile_store: int = 4
    """Cycles for what is done with a row of sums of a tile register: stored, loaded again, and stored."""

    turned_tile_store: int = 20
    """The same where vectors go along the rows: each takes its lanes from several of them."""

    scattered_store: int = 2
    """Cycles for storing an element of a tile by itself."""

    near_cache_bytes: int = 24
    """Bytes a cycle that the second-level cache gives."""

    loading_share: float = 0.1
    """The part of the time that vectors take from that cache which does not pass while sums are done."""

    packing: float = 0.75
    """Cycles for copying an element of a factor into a panel."""

    transposing: float = 0.8
    """Cycles for doing so where it is not contiguous there."""

    turned_loads_share: float = 0.5
    """The part of ``transposing`` that it takes to transpose in registers what is summed up at once. Four to twelve
    rows times the rows of a matrix take a tenth to a half less time so than by a copy (Zen 5)."""

    turned_steps: int = 256
    """Steps from which on that is so where there are few registers: what is copied of fewer stays in a near cache."""

    tile_overhead: int = 40
    """Cycles that a tile takes beside its loads and multiply-adds."""

    hidden_results: int = 1 << 62
    """Operations of what is made of a tile's sums that are done while the sums of the next one are, as far as a
    processor looks ahead. Smaller tiles hide more of theirs."""

    results_issued: int = 2
    """Others of them that are done in a cycle."""

    step_overhead: int = 1
    """Cycles that a step of the fold takes beside these."""

    far_planes_bytes: int = 2 << 20
    """Bytes of the planes of several images from which on they come from beyond the second-level cache."""

    far_scalar: float = 0.2
    """Cycles of a step beside such planes for each of its scalars that is in a line of its own, or is in the planes
    itself while vectors are packed, where ``far_rows`` or more read the planes: tiles of three vectors that are packed,
    and fewer scalars, take a twentieth to a fifth less time then than those of two."""

    far_rows: int = 48
    """Points along the tile axis that read the planes again and again."""

    strided_load: int = 3
    """Loads of contiguous vectors that one costs whose lanes are a few elements apart."""

    far_penalty: float = 1.3
    """How much longer steps take that load scalars from far apart places, vectors or rows of tile registers each from a
    page of its own, or vectors that begin anywhere in a line."""

    asked_strip_penalty: float = 1.3
    """The same of planes, where each tile asks for all that the next strip loads."""

    prefetched_penalty: float = 1.1
    """How much longer steps take that load what is far apart, but was asked for."""

    asked_scalars_penalty: float = 1.05
    """The same where it is scalars alone, most of which sums hide: transposed tiles of 26 sums beside one another then
    take a tenth less time than those of 24 whose vectors are packed, those of 12, where there are few registers, 3 to
    10% less than others of 12."""

    lost_penalty: float = 1.8
    """How much longer steps take that load vectors for ``many_steps``, or so far apart, that none of them is still near
    when the next tile wants it."""

    many_steps: int = 1024
    """Steps of a fold of which the vectors do not stay near."""

    repacked_penalty: float = 1.15
    """How much longer tiles take that are turned, of vectors that are packed first, than others that load theirs where
    they lie: what they read along the tile axis is then what vectors could have read, in the order of the other side.
    """

    turned_penalty: float = 1.15
    """The same beside others that are best packed, too. With AVX-512 they take as long as without it to a sixth longer
    (Emerald Rapids, 2 threads); with few registers, or units half as wide as these, it is nothing."""

    aliased_rows: int = 8
    """Rows whole pages apart fall into the same places of the nearest cache: how many of them it bears."""

    aliased_penalty: float = 1.2
    """How much longer steps take with more of them, up to twice as many; with still more, ``lost_penalty``."""

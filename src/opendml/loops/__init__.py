"""From definitions to kernels in order, for any target: costs, memory, and what waits for what."""

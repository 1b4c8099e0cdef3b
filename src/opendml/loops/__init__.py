"""From definitions to loop nests: affine addresses, simplification by ranges, and the choice of loops (schedules)."""

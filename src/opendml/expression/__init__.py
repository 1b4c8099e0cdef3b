"""Tensor expressions: the grammar (``ir``), its interpreter, its printer, ready-made folds and mathematical functions."""

"""Tensor expressions: grammar (``ir``), interpreter, printer, ready-made folds, mathematical functions."""

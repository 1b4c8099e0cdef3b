"""Compiled operators and graphs, the memory bound to them, and devices, which make them."""

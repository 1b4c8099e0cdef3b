"""Graphs built by expression."""

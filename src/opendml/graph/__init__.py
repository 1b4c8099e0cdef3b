"""Graphs of operators as one definition: joined, fused, and split into what runs once and what runs every time."""

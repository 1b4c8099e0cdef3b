"""Networks that people run on processors, as PyTorch modules with random parameters: the usual sizes, made small
enough by one option for a test."""

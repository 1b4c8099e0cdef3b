"""Benchmarks of opendml against NumPy, PyTorch (eager and compiled) and ONNX Runtime: ``python -m benchmarks --help``."""

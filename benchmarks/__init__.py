"""Benchmarks of opendml against NumPy, PyTorch and ONNX Runtime: ``python -m benchmarks --help``."""

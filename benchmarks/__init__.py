"""Benchmarks of opendml against NumPy, PyTorch, `torch.compile` and ONNX Runtime: ``python -m benchmarks --help``."""

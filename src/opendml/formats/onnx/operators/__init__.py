"""ONNX's operators, each a short function on graph tensors; ``table`` finds them by name."""

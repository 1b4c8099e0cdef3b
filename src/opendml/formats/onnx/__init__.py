"""ONNX models: recognised, not read yet."""

"""DML graphs as ONNX Runtime's DirectML provider serialises them."""

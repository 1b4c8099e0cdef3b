"""Modules of onnxruntime that scripts import exceptions and classes from."""

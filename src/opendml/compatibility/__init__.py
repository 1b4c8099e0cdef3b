"""Interfaces that existing scripts use: ``onnxruntime``, ``pydirectml`` and ``directml``, each a module of that shape.

A script runs here with one line changed, ``import opendml.compatibility.onnxruntime as onnxruntime``, or unchanged
behind ``sys.modules["onnxruntime"] = opendml.compatibility.onnxruntime``.
"""

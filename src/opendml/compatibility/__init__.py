"""What others have made: interfaces that existing scripts use, and data sets of Arrow, Parquet and Ray.

``onnxruntime``, ``pydirectml`` and ``directml`` are modules of that shape; ``distributed`` maps models over data sets.

A script runs here with one line changed, ``import opendml.compatibility.onnxruntime as onnxruntime``, or unchanged
behind ``sys.modules["onnxruntime"] = opendml.compatibility.onnxruntime``.
"""

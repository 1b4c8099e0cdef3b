"""Tensors of sample descriptors."""

from __future__ import annotations

from typing import Any

from opendml.description.tensor import TensorDesc


def f32(*sizes: int, **options: Any) -> TensorDesc:
    """A FLOAT32 tensor."""
    return TensorDesc("float32", sizes, **options)


def u32(*sizes: int) -> TensorDesc:
    """A UINT32 tensor."""
    return TensorDesc("uint32", sizes)


def s8(*sizes: int) -> TensorDesc:
    """An INT8 tensor."""
    return TensorDesc("int8", sizes)

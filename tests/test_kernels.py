"""Kernels: what is read off index expressions, what schedules promise, and random definitions compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values, guarded_buffer, random_values, seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_definitions import definitions

from opendml.enums import TensorDataType
from opendml.errors import ConfigurationError
from opendml.expression.interpreter import NUMPY_TYPES, interpret
from opendml.expression.ir import Definition, Tensor
from opendml.kernels import schedule
from opendml.program import Binding, compile_definition
from opendml.runtime.host import host_target
from opendml.tensor import TensorDesc

Array = np.ndarray[Any, Any]

EXAMPLES = int(os.environ.get("OPENDML_FUZZ_EXAMPLES", "4"))
DATA_TYPES = {d.dtype: d for d in TensorDataType if d.name not in ("UNKNOWN", "UINT4", "INT4")}


@pytest.fixture(autouse=True, scope="module")
def no_cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENDML_CACHE", "0")
        yield


def _levels() -> list[str]:
    found = []
    for level in ("native", "avx2", "baseline"):
        try:
            host_target(level)
            found.append(level)
        except ConfigurationError:
            pass
    return found


LEVELS = _levels()


@settings(max_examples=20 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(definitions(), st.sampled_from(LEVELS), st.booleans(), st.booleans(), seeds)
def test_random_definitions(definition: Definition, level: str, in_place: bool, streamed: bool, seed: int) -> None:
    generator = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    contents = [random_values(DATA_TYPES[NUMPY_TYPES[t.type.name]], t.extent, generator) for t in tensors]
    expected = dict(zip(tensors, (c.copy() for c in contents), strict=True))
    interpret(definition, expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "SERIAL_WORK", 0)
        patch.setattr(schedule, "STREAMED_BYTES", 0 if streamed else 1 << 40)
        bindings = [_binding(t) for t in tensors]
        count = len(definition.inputs)
        program = compile_definition(
            definition,
            inputs=bindings[:count],
            outputs=bindings[count:],
            in_place=in_place,
            host=host_target(level),
            thread_count=3,
        )
    for threads, at_end in ((1, True), (3, False)):
        buffers = [_guarded(content, at_end) for content in contents]
        program.with_thread_count(threads).bind(buffers[:count], buffers[count:])()
        for tensor, buffer in zip(tensors, buffers, strict=True):
            assert_same_values(buffer, expected[tensor])


def _binding(tensor: Tensor) -> Binding:
    return Binding(tensor.name, TensorDesc(DATA_TYPES[NUMPY_TYPES[tensor.type.name]], [tensor.extent]))


def _guarded(content: Array, at_end: bool) -> Array:
    buffer = guarded_buffer(content.size, content.dtype, at_end)
    buffer[...] = content
    return buffer

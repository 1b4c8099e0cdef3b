"""Graphs of ``directml``: their inputs and constants, and what they are compiled to."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import opendml
from opendml.compatibility.directml.tensors import Buffer, Device, Expression, TensorDesc, check_conversion
from opendml.compatibility.expressions import (
    TensorPolicy,
    as_buffer,
    data_type_of,
)
from opendml.description.enums import (
    ExecutionFlags,
    TensorFlags,
)
from opendml.description.errors import BindingError, DescriptorArgumentError
from opendml.description.quoting import quoted

__all__ = [
    "CompiledOperator",
    "Graph",
]

Array = npt.NDArray[Any]
Numbers = Sequence[int]


class _Slot(NamedTuple):
    """An input of a compiled graph."""

    number: int
    key: object
    name: str | None
    desc: opendml.TensorDesc

    @property
    def owned(self) -> bool:
        return self.desc.is_owned_by_dml

    @property
    def parameter(self) -> str:
        """Its name in the graph's program."""
        return f"input{self.number}"

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name is not None else ""
        return f"input {self.number}{name} ({self.desc.data_type.dtype.name} {list(self.desc.sizes)})"

    def laid_out(self, value: Any, device: Device) -> Array:
        """An array or a buffer as the program takes it. Raises BindingError."""
        is_buffer = isinstance(value, Buffer)
        array = value.array if is_buffer else np.asarray(value)
        target = self.desc.data_type.dtype
        if is_buffer and value.device is not device:
            raise BindingError(f"the Buffer for {self} is of a different device")
        if is_buffer and array.dtype != target:
            raise BindingError(f"a Buffer of {array.dtype} for {self}: Buffers are not converted")
        check_conversion(array, target, str(self))
        wanted = self.desc.element_count if self.desc.is_packed else self.desc.element_span
        if array.size < wanted or (self.desc.is_packed and array.size != wanted):
            kind = "a Buffer" if is_buffer else "an array"
            raise BindingError(f"{kind} of {array.size} elements does not fill {self}, which has {wanted}")
        return as_buffer(array, self.desc)


class Graph:
    """A graph under construction. ``tensor_policy`` is accepted: layouts inside of a graph are the compiler's."""

    def __init__(self, device: Device, *, tensor_policy: TensorPolicy | None = None) -> None:
        self.device = device
        self._graph = opendml.Graph(device.inner)
        self._slots: list[_Slot] = []
        self._constants: dict[object, Any] = {}

    def input(
        self,
        sizes: Numbers | None = None,
        dtype: Any = None,
        *,
        owned: bool = False,
        strides: Numbers | None = None,
        desc: TensorDesc | None = None,
        name: str | None = None,
    ) -> Expression:
        """A new input, float32 unless ``dtype`` is given; ``owned`` ones are given to ``initialize``.

        ``desc`` describes it in place of the other parameters. Raises DescriptorArgumentError, a TypeError, and
        BindingError, a ValueError, for a name that is taken.
        """
        if desc is not None and not (sizes is None and dtype is None and not owned and strides is None):
            raise DescriptorArgumentError("input: desc already describes the tensor")
        if desc is None:
            if sizes is None:
                raise DescriptorArgumentError("input: sizes are needed, or a desc")
            flags = TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE
            desc = TensorDesc(np.float32 if dtype is None else dtype, sizes, flags=flags, strides=strides)
        return self._new(desc.inner, name)

    def constant(
        self, array: Any, dtype: Any = None, *, sizes: Numbers | None = None, name: str | None = None
    ) -> Expression:
        """An owned input whose data is known: an array, kept until ``compile``, or a Buffer.

        ``sizes``: others with as many elements. Raises BindingError, a ValueError, for data that does not fit.
        """
        given = array if isinstance(array, Buffer) else np.asarray(array)
        data_type = data_type_of(given.dtype if dtype is None else dtype)
        found = list(given.shape if sizes is None else sizes)
        what = f"the constant {name!r}" if name is not None else f"a constant of sizes {found}"
        if isinstance(given, Buffer) and given.dtype != data_type.dtype:
            raise BindingError(f"a Buffer of {given.dtype} for {what}: Buffers are not converted")
        check_conversion(given, data_type.dtype, what)
        if given.size != math.prod(found):
            raise BindingError(f"an array of {given.size} elements does not fill {what}")
        desc = opendml.TensorDesc(data_type, found, flags=TensorFlags.OWNED_BY_DML)
        expression = self._new(desc, name)
        self._constants[expression.key] = given
        return expression

    def compile(
        self, outputs: Sequence[Expression], *, flags: ExecutionFlags = ExecutionFlags.NONE
    ) -> CompiledOperator:
        """Compiles what the outputs need; initialises it if all owned inputs are constants.

        The graph forgets the constants' data. Raises InvalidDescriptorError, a ValueError, with all that is wrong.
        """
        tensors = [one.tensor if one.tensor.desc.is_packed else one.tensor.packed() for one in outputs]
        program = self._graph.compile(tensors, execution_flags=flags)
        constants, self._constants = self._constants, {}
        return CompiledOperator(program, self.device, tuple(self._slots), constants)

    def _new(self, desc: opendml.TensorDesc, name: str | None) -> Expression:
        if name is not None and not isinstance(name, str):
            raise DescriptorArgumentError(f"the name of an input is text, got {quoted(name)}")
        if name is not None and any(slot.name == name for slot in self._slots):
            raise BindingError(f"this graph already has an input named {name!r}")
        number = len(self._slots)
        tensor = self._graph.input(desc.data_type, desc.sizes, f"input{number}", desc.strides, desc.is_owned_by_dml)
        expression = Expression(tensor)
        self._slots.append(_Slot(number, expression.key, name, desc))
        return expression


class CompiledOperator:
    """A compiled graph: ``operator({x: array})``, where keys are inputs' expressions or names."""

    def __init__(
        self,
        program: opendml.GraphProgram,
        device: Device,
        slots: tuple[_Slot, ...],
        constants: dict[object, Any],
    ) -> None:
        self._program, self._device, self._slots, self._constants = program, device, slots, constants
        self._lock = threading.Lock()
        self.initialized = False
        if all(slot.key in constants for slot in slots if slot.owned):
            self.initialize()

    @property
    def temporary_size(self) -> int:
        """Bytes that a dispatch needs beside inputs and outputs."""
        return self._program.binding_properties.temporary_resource_size

    @property
    def persistent_size(self) -> int:
        """Bytes of what is laid out at initialisation."""
        return self._program.binding_properties.persistent_resource_size

    @property
    def descriptor_count(self) -> int:
        """Descriptors that a binding table of DirectML would need."""
        return self._program.binding_properties.required_descriptor_count

    def initialize(self, weights: Mapping[Any, Any] | None = None) -> None:
        """Lays out the owned inputs: arrays or Buffers by expression or name. Constants may be left out at first.

        Raises BindingError, a ValueError, for what is missing or does not fit, before anything changes.
        """
        arrays = self._arrays(weights or {}, owned=True, verb="initialize", defaults=self._constants)
        with self._lock:
            if arrays:
                self._program.initialize(**arrays)
            self._constants, self.initialized = {}, True

    def dispatch(self, inputs: Mapping[Any, Any] | None = None, *, readback: bool = True) -> list[Any]:
        """The outputs in the order of ``compile``: arrays, or Buffers without ``readback``.

        Raises BindingError, a ValueError, for inputs that are missing or do not fit.
        """
        if not self.initialized:
            owned = ", ".join(str(slot) for slot in self._slots if slot.owned)
            raise BindingError(f"initialize() comes before dispatch(): this operator owns {owned}")
        results = self._program(**self._arrays(inputs or {}, owned=False, verb="dispatch", defaults={}))
        return list(results) if readback else [Buffer._over(self._device, one) for one in results]

    __call__ = dispatch

    def _arrays(
        self, given: Mapping[Any, Any], *, owned: bool, verb: str, defaults: Mapping[object, Any]
    ) -> dict[str, Array]:
        """The arrays of one kind of inputs by their names in the program."""
        bound: dict[str, Array] = {}
        for key, value in given.items():
            slot = self._slot(key, verb)
            if slot.owned != owned:
                instead = "not owned by DirectML; bind it at dispatch" if owned else "owned; bind it in initialize()"
                raise BindingError(f"{slot} is {instead} instead")
            if slot.parameter in bound:
                raise BindingError(f"{slot} is bound twice")
            bound[slot.parameter] = slot.laid_out(value, self._device)
        wanted = [slot for slot in self._slots if slot.owned == owned and slot.parameter not in bound]
        missing = [slot for slot in wanted if slot.key not in defaults]
        if missing:
            raise BindingError(f"{verb}() is missing {', '.join(map(str, missing))}")
        for slot in wanted:
            bound[slot.parameter] = slot.laid_out(defaults[slot.key], self._device)
        return bound

    def _slot(self, key: Any, verb: str) -> _Slot:
        if isinstance(key, Expression):
            found = [slot for slot in self._slots if slot.key is key.key]
            problem = f"{key!r} is not an input of this graph"
        elif isinstance(key, str):
            found = [slot for slot in self._slots if slot.name == key]
            problem = f"this graph has no input named {key!r}"
        else:
            raise DescriptorArgumentError(f"{verb}: keys are expressions or names of inputs, not {type(key).__name__}")
        if not found:
            raise BindingError(problem)
        return found[0]

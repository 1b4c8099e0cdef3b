"""``IOBinding``: the inputs and outputs of runs, fixed beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendml.compatibility.onnxruntime.absent import explains_what_is_absent
from opendml.compatibility.onnxruntime.errors import ExecutionError
from opendml.compatibility.onnxruntime.node_arguments import NodeArg
from opendml.compatibility.onnxruntime.values import OrtValue, array_over, checked_device, data_type_of
from opendml.description.quoting import quoted

__all__ = ["IOBinding"]

Array = npt.NDArray[Any]


@explains_what_is_absent
class IOBinding:
    """What ``InferenceSession.io_binding`` makes and ``run_with_iobinding`` runs.

    An output that is bound to memory is written there; one that is bound by name alone gets new memory at every run.
    """

    def __init__(self, inputs: Sequence[NodeArg], outputs: Sequence[NodeArg]) -> None:
        self._input_names = [one.name for one in inputs]
        self._output_names = [one.name for one in outputs]
        self._inputs: dict[str, Array] = {}
        self._outputs: dict[str, tuple[str, Array | None]] = {}
        self._results: dict[str, OrtValue] = {}

    # ---- inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Binds an array; it is read when the session runs."""
        self._inputs[self._known(name, self._input_names)] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: object, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds memory by its address, which must stay until the session has run."""
        checked_device(device_type)
        known = self._known(name, self._input_names)
        self._inputs[known] = array_over(buffer_ptr, data_type_of(element_type), shape)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value; what it holds is read when the session runs."""
        self._inputs[self._known(name, self._input_names)] = ortvalue.numpy()

    def clear_binding_inputs(self) -> None:
        """Forgets all inputs."""
        self._inputs.clear()

    # ---- outputs

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: object = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output: in new memory, or in that at an address, which must stay until it was read."""
        device = checked_device(device_type)
        known = self._known(name, self._output_names)
        memory = None
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise ExecutionError(
                    "`element_type` and `shape` are to be provided if pre-allocated memory is provided"
                )
            memory = array_over(buffer_ptr, data_type_of(element_type), shape)
        self._outputs[known] = device, memory

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in the memory of a value."""
        self._outputs[self._known(name, self._output_names)] = ortvalue.device_name(), ortvalue.numpy()

    def clear_binding_outputs(self) -> None:
        """Forgets all outputs, and what the last run gave."""
        self._outputs.clear()
        self._results.clear()

    def get_outputs(self) -> list[OrtValue]:
        """What the last run gave, in the order of binding."""
        return [self._results[name] for name in self._outputs if name in self._results]

    def copy_outputs_to_cpu(self) -> list[Array]:
        """What the last run gave as arrays of their own."""
        return [value.numpy().copy() for value in self.get_outputs()]

    # ---- waiting: a run is over when it returns

    def synchronize_inputs(self) -> None:
        """Nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for."""

    # ---- the session's side

    @property
    def feed(self) -> Mapping[str, Array]:
        """The inputs by name."""
        return self._inputs

    def take(self, results: Mapping[str, Array]) -> None:
        """Puts what a run gave where it was asked for. Raises ExecutionError, before anything is written."""
        for name, (_, memory) in self._outputs.items():
            if memory is not None and (memory.dtype, memory.shape) != (results[name].dtype, results[name].shape):
                given, bound = (f"{one.dtype} {list(one.shape)}" for one in (results[name], memory))
                raise ExecutionError(
                    f"Error in execution: output {quoted(name)} is {given}, memory of {bound} is bound"
                )
        for name, (device, memory) in self._outputs.items():
            if memory is not None:
                np.copyto(memory, results[name])
            self._results[name] = OrtValue(results[name] if memory is None else memory, device)

    def _known(self, name: str, names: Sequence[str]) -> str:
        if name not in names:
            raise ExecutionError(f"Failed to find NodeArg with name: {name} in the def list")
        return name

"""Compiled operators: code that is loaded, and the tensors that have to be bound to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from opendml.description.enums import ExecutionFlags
from opendml.description.errors import BindingError, NotPicklableError
from opendml.description.quoting import plural
from opendml.programs.binding import Binding, Bound, bind_all, check_overlap, several, signature_text
from opendml.programs.device_tensor import DeviceTensor, tensor_on
from opendml.targets.host_memory import empty, new_array, place_of

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.description.tensor import TensorDesc
    from opendml.targets.interface import Buffer, Dispatch, Executable
    from opendml.targets.target import Target

Array = npt.NDArray[Any]
Whole = TypeVar("Whole")


def shallow_copy(value: Whole) -> Whole:
    """An object of the same class with the same attributes, whatever ``copy.copy`` would do."""
    other = object.__new__(type(value))
    other.__dict__.update(value.__dict__)
    return other


class Program:
    """An operator compiled for this machine; call it with arrays, or bind arrays once and call that often.

    ``program(x, ...)`` allocates the outputs and returns them: one array, or a tuple. ``program(x, out=[y])`` writes
    into given arrays. Inputs and outputs are in DirectML's order, None for optional tensors that the descriptor does
    not have. An array whose type, sizes and strides are those of the descriptor is used in place; so is a flat one
    that holds the descriptor's buffer, or a larger one; where the tensor itself is flat and packed, only one of its
    sizes, or of its stated total size, as any other length is a mistake. Other inputs of the right sizes are copied
    first. Anything with DLPack or the buffer protocol will do for an array. Called with a DeviceTensor, it returns
    DeviceTensors. A program may be called from several threads at once. ``desc``: its operator, None for a part of a
    graph; ``execution_flags``: those that it was compiled with; ``executable``: its code.

    Raises BindingError where the number, type, sizes or memory of arrays do not fit.
    """

    def __init__(
        self,
        executable: Executable,
        *,
        inputs: Sequence[Binding],
        outputs: Sequence[Binding],
        in_place: bool,
        from_cache: bool = False,
    ) -> None:
        self.executable = executable
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.in_place = in_place
        self.from_cache = from_cache
        self.desc: Operator | None = None
        self.execution_flags = ExecutionFlags.NONE
        self.target: Target | None = None
        self.origin: tuple[Callable[..., Program], tuple[Any, ...]] | None = None
        self._output_places = tuple(None if b.desc is None else place_of(b.desc) for b in self.outputs)

    def __repr__(self) -> str:
        name = "a part of a graph" if self.desc is None else self.desc.type.name
        threads = plural(self.thread_count, "thread")
        return f"<Program {name} {signature_text(self.inputs, self.outputs)}, {threads}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, and copied, as what it was compiled from: it is compiled, or read from the disk cache, again."""
        if self.origin is None:
            raise NotPicklableError("this program is only a part of a graph: pickle or copy the graph's")
        return _rebuilt, (*self.origin, self.thread_count)

    @property
    def thread_count(self) -> int:
        """Threads of a run."""
        return self.executable.thread_count

    @property
    def temporary_size(self) -> int:
        """Bytes of memory that a run needs beside its tensors: what its threads share, and what each needs alone."""
        return self.executable.temporary_size

    @property
    def least_temporary_size(self) -> int:
        """Bytes of the temporary tensors that are alive at one time, at most."""
        return self.executable.least_temporary_size

    def with_thread_count(self, thread_count: int) -> Program:
        """The same program run by another number of threads; the results are the same."""
        other = shallow_copy(self)
        other.executable = self.executable.with_thread_count(thread_count)
        return other

    def __call__(self, *arrays: Any, out: Sequence[Any] | Array | DeviceTensor | None = None) -> Any:
        """Run on ``arrays`` and return the outputs: one array, or a tuple of them."""
        outputs = self.outputs_for(arrays, out)
        self.bind(arrays, outputs).run_last()
        results = tuple(array for array in outputs if array is not None)
        return results[0] if len(results) == 1 else results

    def run_unchecked(self, arrays: Sequence[Array | None]) -> list[Array | None]:
        """Run on arrays and return new outputs, None for absent ones, without the checks of a call.

        For callers that have made the descriptors from these very arrays: each must be aligned and have the type,
        sizes and strides of its descriptor, None where there is none. New outputs overlap nothing.
        """
        outputs = [None if place is None else new_array(place) for place in self._output_places]
        self.executable.run(arrays, outputs)
        return outputs

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any], last_inputs: Sequence[Buffer] = ()) -> BoundCall:
        """Check arrays and fix their addresses; the result is called without arguments, again and again.

        Bound inputs are read anew at every call, as far as they are used in place. The arrays must not be resized
        meanwhile; a bound call may run in one thread at a time. ``last_inputs`` come from ``bound_last``.
        """
        bound_inputs, bound_outputs = self._bound(inputs, outputs, last_inputs)
        read = [*bound_inputs, *last_inputs]
        dispatch = self.executable.dispatch(read, bound_outputs)
        refreshed = [b for b in bound_inputs if b is not None and b.refresh is not None]
        return BoundCall(dispatch, (self, *read, *bound_outputs), refreshed)

    def _bound(
        self, inputs: Sequence[Any], outputs: Sequence[Any], last_inputs: Sequence[Buffer]
    ) -> tuple[list[Bound | None], list[Bound | None]]:
        """The arrays of inputs, without the last ones, and of outputs, checked."""
        bound_inputs = bind_all(self.inputs[: len(self.inputs) - len(last_inputs)], inputs, "input", self.target)
        bound_outputs = bind_all(self.outputs, outputs, "output", self.target)
        check_overlap(bound_inputs, bound_outputs, in_place=self.in_place)
        return bound_inputs, bound_outputs

    def bound_last(self, arrays: Sequence[Array]) -> Sequence[Buffer]:
        """The last inputs, checked once for any number of calls, where the code reads them: memory that nobody else
        writes to."""
        bound = bind_all(self.inputs[len(self.inputs) - len(arrays) :], arrays, "input", self.target)
        return self.executable.resident([tensor for tensor in bound if tensor is not None])

    @property
    def device(self) -> str:
        """The name of the device that it runs on."""
        return "reference" if self.target is None else self.target.name

    def outputs_for(self, inputs: Sequence[Any], out: Any) -> list[Any]:
        """The outputs of a call: what is given, else new arrays, or new DeviceTensors where an input is one."""
        if out is not None:
            return [out] if isinstance(out, (np.ndarray, DeviceTensor)) else several(out, "out")
        for value in inputs:
            if isinstance(value, DeviceTensor):
                return [None if b.desc is None else self.new_tensor(b.desc) for b in self.outputs]
        return self.new_outputs()

    def new_tensor(self, desc: TensorDesc) -> DeviceTensor:
        """A new tensor where the program runs; its content is random."""
        return tensor_on(self.device, None if self.target is None else self.target.memory, desc)

    def new_outputs(self) -> list[Array | None]:
        """New arrays for all outputs, None for absent ones."""
        return [None if binding.desc is None else empty(binding.desc) for binding in self.outputs]


def _rebuilt(make: Callable[..., Program], arguments: tuple[Any, ...], thread_count: int) -> Program:
    """What an unpickled program is."""
    return make(*arguments).with_thread_count(thread_count)


class BoundCall:
    """Arrays bound to a program; call it to run. Keeps the arrays and the program alive."""

    __slots__ = ("_dispatch", "_keep", "_refreshed", "_run")

    def __init__(self, dispatch: Dispatch, keep: tuple[object, ...], refreshed: Sequence[Bound]) -> None:
        self._dispatch = dispatch
        self._run: Callable[[], object] = dispatch
        self._keep = keep
        self._refreshed = tuple(refreshed)

    def __repr__(self) -> str:
        return f"<BoundCall of {self._keep[0]!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise NotPicklableError("a bound call holds arrays of this process: pickle or copy the program, and bind anew")

    def __call__(self) -> None:
        """Run once."""
        if self._refreshed:
            self._refresh()
        run = self._run
        run()
        if run is self._dispatch:  # It may be called often.
            self.hasten()

    def hasten(self) -> None:
        """Make now what quickens all calls but the first, so that no call takes the time for it."""
        if self._run is self._dispatch:
            self._run = self._dispatch.quicker()

    def _refresh(self) -> None:
        for bound in self._refreshed:
            assert bound.refresh is not None
            bound.refresh()

    def run_last(self) -> None:
        """Run for the last time: what the call holds beside its arrays goes to a later call of the same program."""
        self._refresh()
        self._run()
        self._run = _is_over
        self._dispatch.release()


def _is_over() -> None:
    raise BindingError("the call was told that it ran for the last time")

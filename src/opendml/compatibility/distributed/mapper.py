"""``Mapper``: a model that takes batches of rows. Columns become inputs; outputs have a row for each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.compatibility.distributed.sources import IMAGE, PATH
from opendml.description.errors import BindingError
from opendml.description.quoting import argument, listed, quoted
from opendml.formats.loading import load
from opendml.formats.onnx.model import OnnxModel
from opendml.formats.onnx.program import OnnxProgram
from opendml.formats.onnx.types import TensorInfo, array_type
from opendml.programs.device import Device

__all__ = ["DEFAULT_BATCH", "Images", "Mapper", "Plan"]

Array = npt.NDArray[Any]

DEFAULT_BATCH: Final = 32
"""Rows of a batch where neither the model nor the caller says."""

KEPT_PROGRAMS: Final = 4
"""Programs for different sizes of rows that are kept."""


@dataclass(frozen=True, slots=True)
class Images:
    """How pixels become numbers: ``(pixel / 255 - mean) / deviation`` by channel, for inputs of floating point."""

    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a mapping is, as workers on other machines get it. ``model``: a path, bytes, or a model that was read."""

    model: Any
    device: str = "cpu"
    batch_size: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    images: Images = Images()
    narrow_float64: bool = False
    fuse_quantization: bool = True


class Mapper:
    """A plan's model with its programs. May be called from several threads at once."""

    def __init__(self, plan: Plan, thread_count: int | None = None) -> None:
        model = plan.model if isinstance(plan.model, OnnxModel) else load(plan.model)
        if not isinstance(model, OnnxModel):
            raise BindingError("only ONNX models run over data sets: graphs of other formats have no batches")
        self.plan, self.model = plan, model
        unknown = [name for name in plan.values if name not in [info.name for info in model.inputs]]
        if unknown:
            raise BindingError(f"{argument('values')}: the model has no input {listed(unknown)}")
        self.device = Device(plan.device, thread_count=thread_count if plan.device == "cpu" else None)
        self.inputs = [info for info in model.inputs if info.name not in plan.values]
        self.batch_size = _batch_size(self.inputs, plan.batch_size)
        self._programs: OrderedDict[tuple[Any, ...], OnnxProgram] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def image_size(self) -> tuple[int, int] | None:
        """Height and width of images: those asked for, else those that the model says."""
        if self.plan.images.size is not None or len(self.inputs) != 1 or len(self.inputs[0].sizes or ()) != 4:
            return self.plan.images.size
        sizes = (self.inputs[0].sizes or ())[1:]
        height, width = sizes[:2] if _is_channels_last(sizes) else sizes[1:]
        return (height, width) if isinstance(height, int) and isinstance(width, int) else None

    def columns(self, available: Sequence[str]) -> dict[str, str]:
        """The column of each input: that which is said, that of its name, or the only one. Raises BindingError."""
        data = [name for name in available if name != PATH and name not in self.plan.keep]
        found, missing = {}, []
        for info in self.inputs:
            name = self.plan.columns.get(info.name, info.name)
            if name not in available and info.name not in self.plan.columns and len(self.inputs) == len(data) == 1:
                name = data[0]
            found[info.name] = name
            missing += [] if name in available else [f"{info.name!r} (column {name!r})"]
        unknown = [name for name in (*self.plan.columns, *self.plan.keep) if name not in (*found, *available)]
        if missing or unknown:
            reason = f"no column for the input {', '.join(missing)}" if missing else f"there is no {listed(unknown)}"
            raise BindingError(f"{reason}; the data set has {listed(available)}")
        return found

    def kept(self, available: Sequence[str]) -> list[str]:
        """The columns that results keep: those asked for, and paths of images."""
        return [name for name in available if name in self.plan.keep or name == PATH]

    def __call__(self, batch: Mapping[str, Array], columns: Mapping[str, str]) -> dict[str, Array]:
        """The outputs, and the columns to keep, of at most ``batch_size`` rows. Raises BindingError."""
        rows = len(next(iter(batch.values())))
        arrays = {info.name: self._array(info, batch[columns[info.name]], columns[info.name]) for info in self.inputs}
        program = self._program({name: array.shape for name, array in arrays.items()})
        results = {name: batch[name] for name in self.kept(list(batch))}
        for name, array in program.run(arrays).items():
            if array.ndim == 0 or len(array) != self.batch_size:
                sizes = f"{list(array.shape)} for a batch of {self.batch_size}"
                raise BindingError(f"output {quoted(name)} has no row for each row of the batch: its sizes are {sizes}")
            results[name] = array[:rows]
        return results

    def _array(self, info: TensorInfo, rows: Array, column: str) -> Array:
        """The rows of a column as an input: its type and sizes, and as many rows as a batch has."""
        if column == IMAGE and rows.dtype == np.uint8 and rows.ndim == 4:
            rows = self._pixels(info, rows)
        expected = array_type(info.element_type)
        if not np.can_cast(rows.dtype, expected, "same_kind"):
            raise BindingError(f"column {quoted(column)}: {rows.dtype} does not become {info.data_type} by itself")
        declared = (info.sizes or ())[1:]
        if info.sizes is not None and all(isinstance(size, int) for size in declared):
            sizes = tuple(size for size in declared if isinstance(size, int))
            if int(np.prod(sizes)) != int(np.prod(rows.shape[1:])):
                raise BindingError(f"column {quoted(column)}: rows of {list(rows.shape[1:])} do not fit {info!r}")
            rows = rows.reshape(len(rows), *sizes)
        array = np.ascontiguousarray(rows, expected)
        missing = self.batch_size - len(array)
        # The last batch is filled up with its last row, so that one program does all.
        return np.concatenate([array, np.repeat(array[-1:], missing, 0)]) if missing else array

    def _pixels(self, info: TensorInfo, rows: Array) -> Array:
        images = self.plan.images
        numbers: Array = rows
        if array_type(info.element_type).kind == "f":
            mean, deviation = (np.array(one, np.float32).reshape(-1, 1, 1) for one in (images.mean, images.deviation))
            numbers = (rows.astype(np.float32) / np.float32(255) - mean) / deviation
        return numbers.transpose(0, 2, 3, 1) if _is_channels_last((info.sizes or ())[1:]) else numbers

    def _program(self, sizes: Mapping[str, tuple[int, ...]]) -> OnnxProgram:
        key = tuple(sizes.values())
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                given = {name: list(shape) for name, shape in sizes.items()}
                program = self.model.compile(
                    self.device,
                    sizes=given,
                    values=self.plan.values,
                    narrow_float64=self.plan.narrow_float64,
                    fuse_quantization=self.plan.fuse_quantization,
                )
                self._programs[key] = program
                if len(self._programs) > KEPT_PROGRAMS:
                    self._programs.popitem(last=False)
            return program


def _is_channels_last(sizes: Sequence[int | str | None]) -> bool:
    return len(sizes) == 3 and sizes[-1] == 3 and sizes[0] != 3


def _batch_size(inputs: Sequence[TensorInfo], wanted: int | None) -> int:
    """The rows of a batch: the model's, if it says them. Raises BindingError where there is no such thing."""
    if not inputs:
        raise BindingError("the model has no inputs that a data set could be for")
    without = [info.name for info in inputs if info.sizes == ()]
    if without:
        cure = argument("values", {without[0]: 1})
        raise BindingError(f"the input {listed(without)} has no dimension for a batch: {cure} gives it, for example")
    fixed = {info.sizes[0] for info in inputs if info.sizes and isinstance(info.sizes[0], int)}
    if len(fixed) > 1:
        raise BindingError(f"the inputs' first dimensions are {listed(sorted(map(str, fixed)))}: there is no one batch")
    size = next(iter(fixed)) if fixed else wanted or DEFAULT_BATCH
    if not isinstance(size, int) or size < 1 or (wanted is not None and wanted != size):
        raise BindingError(f"{argument('batch_size', wanted)}: the model has batches of {size}")
    return size

"""From the bindings of a model to byte ranges of its resources, with everything checked that DirectML demands.

A binding covers its resource from the offset to the end; it must be long enough for the tensor, begin at a multiple of
16 bytes and of the tensor's own alignment, and be a multiple of 4 bytes long. What a dispatch writes may not overlap
anything else that it uses, except that an operator which supports it may run in place, on exactly its input's bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opendml.description.descriptors import Operator
from opendml.description.errors import ModelFormatError
from opendml.description.graph_desc import GraphDesc
from opendml.description.graph_paths import graph_input_tensors, graph_output_tensors
from opendml.description.quoting import quoted
from opendml.formats.json_text import member_path, unknown_name

if TYPE_CHECKING:
    from opendml.description.tensor import TensorDesc
    from opendml.formats.dxdispatch.model import Bindings, BindingSource, Dispatchable, Model, Resource

__all__ = ["BoundTensor", "DispatchBindings", "bind_dispatch", "bind_initialization", "tensors_to_bind"]

BASE_OFFSET_ALIGNMENT = 16
SIZE_MULTIPLE = 4


@dataclass(frozen=True, slots=True)
class BoundTensor:
    """A tensor and the bytes of a resource that it occupies: `tensor.total_size_in_bytes` from `offset` on."""

    name: str
    tensor: TensorDesc
    resource: str
    offset: int
    path: str
    written: bool

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.tensor.total_size_in_bytes


@dataclass(frozen=True, slots=True)
class DispatchBindings:
    """The tensors of a dispatch in DirectML's binding order; None where nothing is bound."""

    inputs: tuple[BoundTensor | None, ...]
    outputs: tuple[BoundTensor | None, ...]


def bind_dispatch(model: Model, dispatchable: Dispatchable, bindings: Bindings, path: str) -> DispatchBindings:
    """The bindings of an execution: all tensors but those OWNED_BY_DML. `path` is that of the command.

    Raises:
        ModelFormatError: a binding is missing, superfluous, too small, misaligned, or overlaps another.
    """
    return _bind(model, dispatchable, bindings, f"{path}.bindings", initialization=False)


def bind_initialization(model: Model, dispatchable: Dispatchable) -> DispatchBindings:
    """The bindings of the initialisation: the tensors OWNED_BY_DML. Errors as for `bind_dispatch`."""
    path = f"{dispatchable.path}.bindings"
    return _bind(model, dispatchable, dispatchable.bindings, path, initialization=True)


def _bind(
    model: Model, dispatchable: Dispatchable, bindings: Bindings, path: str, *, initialization: bool
) -> DispatchBindings:
    inputs, outputs = tensors_to_bind(dispatchable.desc)
    tensors = [(name, tensor, False) for name, tensor in inputs] + [(name, tensor, True) for name, tensor in outputs]
    points: dict[str, list[tuple[str, TensorDesc | None, bool]]] = {}
    for tensor in tensors:
        points.setdefault(_bind_point(dispatchable.desc, tensor[0]), []).append(tensor)
    for point in bindings:
        if point not in points:
            raise ModelFormatError(path, unknown_name("bind point", point, points))
    bound: dict[str, BoundTensor] = {}
    for point, group in points.items():
        for entry in _bind_point_tensors(
            model, point, group, bindings.get(point), member_path(path, point), initialization
        ):
            bound[entry.name] = entry
    in_place = isinstance(dispatchable.desc, Operator) and dispatchable.desc.in_place
    _check_overlaps(list(bound.values()), in_place and not initialization)
    return DispatchBindings(
        tuple(bound.get(name) for name, _ in inputs),
        tuple(bound.get(name) for name, _ in outputs),
    )


NamedTensors = Sequence[tuple[str, "TensorDesc | None"]]


def tensors_to_bind(desc: Operator | GraphDesc) -> tuple[NamedTensors, NamedTensors]:
    """The inputs and the outputs of an operator or of a valid graph, with their names, in DirectML's binding order."""
    if isinstance(desc, Operator):
        return desc.inputs(), desc.outputs()
    inputs = [(desc.input_name(index), tensor) for index, tensor in enumerate(graph_input_tensors(desc))]
    return inputs, [(desc.output_name(index), tensor) for index, tensor in enumerate(graph_output_tensors(desc))]


def _bind_point(desc: Operator | GraphDesc, name: str) -> str:
    """The field of an operator, which takes all tensors of an array; a graph has a point for each tensor."""
    return name.partition("[")[0] if isinstance(desc, Operator) else name


def _bind_point_tensors(
    model: Model,
    point: str,
    group: list[tuple[str, TensorDesc | None, bool]],
    sources: tuple[BindingSource, ...] | None,
    path: str,
    initialization: bool,
) -> Iterator[BoundTensor]:
    """The tensors of one bind point that belong to the phase, with their sources."""
    present = [(name, tensor, written) for name, tensor, written in group if tensor is not None]
    wanted = [entry for entry in present if entry[1].is_owned_by_dml == initialization]
    if sources is None:
        if wanted and initialization:
            raise ModelFormatError(path, f"{point} is OWNED_BY_DML, so a resource must be bound to it here")
        if wanted:
            raise ModelFormatError(path, "a resource must be bound to this tensor")
        return
    if not wanted:
        raise ModelFormatError(path, _not_wanted(point, bool(present), initialization))
    if len(sources) != len(wanted):
        raise ModelFormatError(path, f"{len(wanted)} resources must be bound here, got {len(sources)}")
    for (name, tensor, written), source in zip(wanted, sources, strict=True):
        offset = _checked_offset(name, tensor, source, model.resources[source.resource])
        yield BoundTensor(name, tensor, source.resource, offset, source.path, written)


def _not_wanted(point: str, present: bool, initialization: bool) -> str:
    if not present:
        return f"{point} is not used, so nothing can be bound to it"
    if initialization:
        return f"{point} is not OWNED_BY_DML: bind it in the dispatch command"
    return f"{point} is OWNED_BY_DML: bind it in the dispatchable's own bindings, where it is initialised"


def _checked_offset(name: str, tensor: TensorDesc, source: BindingSource, resource: Resource) -> int:
    """The offset of a binding in bytes."""

    def fail(message: str) -> None:
        raise ModelFormatError(source.path, message)

    element_size = source.element_size_in_bytes or (resource.data_type.dtype.itemsize if resource.data_type else 0)
    if source.element_offset and not element_size:
        fail("elementSizeInBytes is required: the resource has no data type of its own")
    offset = source.element_offset * element_size
    available = resource.size_in_bytes - offset
    if source.element_count is not None and source.element_count * element_size > available:
        fail(
            f"elementOffset and elementCount reach beyond the {resource.size_in_bytes} bytes of {quoted(resource.name)}"
        )
    if available < tensor.total_size_in_bytes:
        fail(
            f"{name} needs {tensor.total_size_in_bytes} bytes, but {quoted(resource.name)} has {max(available, 0)}"
            + (f" from offset {offset} on" if offset else "")
        )
    for alignment in (BASE_OFFSET_ALIGNMENT, tensor.guaranteed_base_offset_alignment):
        if alignment and offset % alignment:
            fail(f"the offset, {offset} bytes, is not a multiple of {alignment}")
    if available % SIZE_MULTIPLE:
        fail(f"the bound range, {available} bytes, is not a multiple of {SIZE_MULTIPLE}: enlarge sizeInBytes")
    return offset


def _check_overlaps(bound: list[BoundTensor], in_place: bool) -> None:
    """No byte that is written may be used by anything else, but for execution in place."""

    def key(entry: BoundTensor) -> tuple[str, int, int]:
        return entry.resource, entry.offset, entry.end

    furthest: BoundTensor | None = None
    furthest_written: BoundTensor | None = None
    for (resource, begin, _), same in itertools.groupby(sorted(bound, key=key), key):
        entries = list(same)
        written = _check_same_range(entries, in_place)
        current = written or entries[0]
        other = furthest if written else furthest_written
        if other is not None and other.resource == resource and begin < other.end:
            raise ModelFormatError(
                current.path,
                f"{current.name} overlaps {other.name} in resource {quoted(resource)}, and one of them is written",
            )
        if furthest is None or furthest.resource != resource or current.end > furthest.end:
            furthest = current
        if written and (
            furthest_written is None or furthest_written.resource != resource or current.end > furthest_written.end
        ):
            furthest_written = current


def _check_same_range(entries: list[BoundTensor], in_place: bool) -> BoundTensor | None:
    """The tensor that is written among those that share one range, if there is one."""
    writers = [entry for entry in entries if entry.written]
    if len(writers) > 1:
        raise ModelFormatError(writers[1].path, f"{writers[0].name} and {writers[1].name} are bound to the same bytes")
    if not writers:
        return None
    for reader in entries:
        if not reader.written and not (in_place and _same_layout(reader.tensor, writers[0].tensor)):
            reason = "different layouts" if in_place else "an operator that cannot run in place"
            raise ModelFormatError(
                writers[0].path, f"{writers[0].name} and {reader.name} are bound to the same bytes, with {reason}"
            )
    return writers[0]


def _same_layout(one: TensorDesc, other: TensorDesc) -> bool:
    """Whether every element of one lies where the same element of the other does."""
    strides = zip(one.sizes, one.effective_strides, other.effective_strides, strict=True)
    same_type_and_sizes = one.data_type == other.data_type and one.sizes == other.sizes
    return same_type_and_sizes and all(size == 1 or mine == its for size, mine, its in strides)

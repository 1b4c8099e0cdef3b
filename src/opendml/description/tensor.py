"""``TensorDesc``: the data type, sizes and memory layout of one tensor (``DML_BUFFER_TENSOR_DESC``).

A description is a value: immutable, equal and hashable field for field. It may hold nonsense (a size of 0, more
dimensions than DirectML has): the rules report that together with everything else that is wrong with an operator.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, SupportsIndex

from opendml.description.enums import TensorDataType, TensorFlags, TensorType
from opendml.description.errors import DescriptorFormatError, InvalidDescriptorError
from opendml.description.json_values import (
    Reading,
    check_fields,
    join,
    read_enum,
    read_flags,
    read_integer,
    read_integers,
    read_object,
)
from opendml.description.names import did_you_mean
from opendml.description.quoting import quoted

MAXIMUM_DIMENSION_COUNT: Final = 8
MAXIMUM_UINT: Final = 2**32 - 1
MAXIMUM_UINT64: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, init=False)
class TensorDesc:
    """A tensor: element type, sizes and where each element lies in its buffer.

    ``sizes`` are element counts, outermost dimension first ({N, C, H, W} where axes have a meaning). ``strides`` are
    in elements, one a dimension: the element at a coordinate lies at the dot product of coordinate and strides.
    ``None`` means packed, last dimension fastest; 0 repeats one element (broadcast), allowed for inputs only.
    ``total_size_in_bytes`` is the size of the buffer, by default the least possible; a larger one declares padding
    after the data. ``guaranteed_base_offset_alignment`` in bytes promises where bindings start, 0 promises nothing.

    ``data_type`` is a ``TensorDataType``, its name in any case ("float32") or a NumPy type. Raises
    ``InvalidDescriptorError`` for arguments of a wrong Python type.
    """

    data_type: TensorDataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    flags: TensorFlags
    total_size_in_bytes: int
    guaranteed_base_offset_alignment: int

    def __init__(
        self,
        data_type: TensorDataType | str | type | Any,
        sizes: Iterable[SupportsIndex],
        strides: Iterable[SupportsIndex] | None = None,
        *,
        flags: TensorFlags | int | str | Sequence[str] = TensorFlags.NONE,
        total_size_in_bytes: SupportsIndex | None = None,
        guaranteed_base_offset_alignment: SupportsIndex = 0,
    ) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        # Members of the enumerations are taken as they are: tensors are described in every eager call.
        is_member = type(data_type) is TensorDataType
        put("data_type", data_type if is_member else _parse("DataType", TensorDataType.parse, data_type))
        put("sizes", _integers("Sizes", sizes))
        put("strides", None if strides is None else _integers("Strides", strides))
        put("flags", flags if type(flags) is TensorFlags else _parse("Flags", TensorFlags.parse, flags))
        put(
            "total_size_in_bytes",
            self.minimum_size_in_bytes
            if total_size_in_bytes is None
            else _integer("TotalTensorSizeInBytes", total_size_in_bytes),
        )
        put(
            "guaranteed_base_offset_alignment",
            _integer("GuaranteedBaseOffsetAlignment", guaranteed_base_offset_alignment),
        )

    @property
    def rank(self) -> int:
        """The number of dimensions (DimensionCount)."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of elements: the product of the sizes."""
        return math.prod(self.sizes[: MAXIMUM_DIMENSION_COUNT + 1])

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """The strides, in elements, of a packed tensor of these sizes."""
        return packed_strides(self.sizes)

    @property
    def effective_strides(self) -> tuple[int, ...]:
        """The strides in elements, packed ones where none are given."""
        return self.packed_strides if self.strides is None else self.strides

    @property
    def is_packed(self) -> bool:
        """Whether elements follow one another without gaps in logical order, whatever the strides of single-element
        dimensions are."""
        return self.strides is None or all(
            size == 1 or stride == packed
            for size, stride, packed in zip(self.sizes, self.strides, self.packed_strides, strict=False)
        )

    @property
    def element_span(self) -> int:
        """The number of elements from the first to the last one in memory, gaps included."""
        if self.strides is None:
            return self.element_count
        steps = zip(self.sizes[: MAXIMUM_DIMENSION_COUNT + 1], self.strides, strict=False)
        return 1 + sum((size - 1) * stride for size, stride in steps)

    @property
    def minimum_size_in_bytes(self) -> int:
        """The least size of a buffer for this tensor, a multiple of 4 (DMLCalcBufferTensorSize)."""
        used = -(-self.element_span * self.data_type.bits // 8)
        return (used + 3) // 4 * 4

    @property
    def in_memory(self) -> TensorDesc:
        """The tensor as arrays are bound to it: itself, or of the 4-bit types, which NumPy does not have, the bytes
        that hold two elements each, the first one in the lower half."""
        if self.data_type.bits != 4:
            return self
        return TensorDesc(
            TensorDataType.UINT8,
            [(self.element_span + 1) // 2],
            flags=self.flags,
            total_size_in_bytes=self.total_size_in_bytes,
            guaranteed_base_offset_alignment=self.guaranteed_base_offset_alignment,
        )

    @property
    def is_owned_by_dml(self) -> bool:
        """Whether the tensor is bound once, when its operator is initialised."""
        return TensorFlags.OWNED_BY_DML in self.flags

    def replace(self, **changes: Any) -> TensorDesc:
        """A copy with some arguments changed. The total size is computed anew unless it is among them."""
        arguments: dict[str, Any] = {
            "data_type": self.data_type,
            "sizes": self.sizes,
            "strides": self.strides,
            "flags": self.flags,
            "guaranteed_base_offset_alignment": self.guaranteed_base_offset_alignment,
        }
        return TensorDesc(**(arguments | changes))

    def __repr__(self) -> str:
        parts = [repr(self.data_type.name.lower()), repr(list(self.sizes))]
        if self.strides is not None:
            parts.append(f"strides={list(self.strides)}")
        if self.flags:
            parts.append(f"flags={self.flags.dml_names or int(self.flags)}")
        if self.total_size_in_bytes != self.minimum_size_in_bytes:
            parts.append(f"total_size_in_bytes={self.total_size_in_bytes}")
        if self.guaranteed_base_offset_alignment:
            parts.append(f"guaranteed_base_offset_alignment={self.guaranteed_base_offset_alignment}")
        return f"TensorDesc({', '.join(parts)})"

    def to_json(self) -> dict[str, Any]:
        """The description in DirectML's spelling; what has its default value is left out."""
        json: dict[str, Any] = {"DataType": self.data_type.name, "Sizes": list(self.sizes)}
        if self.strides is not None:
            json["Strides"] = list(self.strides)
        if self.flags:
            names = self.flags.dml_names
            json["Flags"] = int(self.flags) if self.flags.unknown_bits else names[0] if len(names) == 1 else names
        if self.total_size_in_bytes != self.minimum_size_in_bytes:
            json["TotalTensorSizeInBytes"] = self.total_size_in_bytes
        if self.guaranteed_base_offset_alignment:
            json["GuaranteedBaseOffsetAlignment"] = self.guaranteed_base_offset_alignment
        return json

    @classmethod
    def from_json(cls, json: object, path: str = "") -> TensorDesc:
        """Reads a description as DxDispatch does: its fields inline, or under ``Desc`` beside ``Type: BUFFER``.

        ``Strides`` (or ``[]``), ``Flags``, ``TotalTensorSizeInBytes`` (or 0: computed) and
        ``GuaranteedBaseOffsetAlignment`` may be absent. ``DimensionCount``, if there, must be the length of ``Sizes``.
        Raises ``DescriptorFormatError``.
        """
        fields, path = _tensor_fields(read_object(json, path), path)
        reading, values = Reading(), dict[str, Any]()
        with reading.attempt():
            check_fields(fields, _JSON_FIELDS, required=("DataType", "Sizes"), path=path)
        for name, read in _READERS.items():
            with reading.attempt():
                if name in fields:
                    values[name] = read(fields[name], join(path, name))
        count = values.get("DimensionCount")
        if count is not None and "Sizes" in values and count != len(values["Sizes"]):
            with reading.attempt():
                length = len(values["Sizes"])
                raise DescriptorFormatError(join(path, "DimensionCount"), f"expected {length}, the length of Sizes")
        reading.finish()
        return cls(
            values["DataType"],
            values["Sizes"],
            values.get("Strides"),
            flags=values.get("Flags", TensorFlags.NONE),
            total_size_in_bytes=values.get("TotalTensorSizeInBytes") or None,
            guaranteed_base_offset_alignment=values.get("GuaranteedBaseOffsetAlignment", 0),
        )


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "DataType": lambda json, path: read_enum(TensorDataType, json, path),
    "Flags": lambda json, path: read_flags(TensorFlags, json, path),
    "DimensionCount": read_integer,
    "Sizes": read_integers,
    "Strides": lambda json, path: read_integers(json, path) if json else None,
    "TotalTensorSizeInBytes": read_integer,
    "GuaranteedBaseOffsetAlignment": read_integer,
}
_JSON_FIELDS = tuple(_READERS)


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides in elements of a packed tensor: each the product of the sizes after it."""
    strides = [1] * len(sizes)
    for dimension in range(len(sizes) - 1, 0, -1):
        strides[dimension - 1] = strides[dimension] * sizes[dimension]
    return tuple(strides)


def _tensor_fields(json: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], str]:
    """The fields of the buffer description and their path, out of an optional {Type, Desc} wrapper."""
    if "Type" in json:
        type_path = f"{path}.Type" if path else "Type"
        if read_enum(TensorType, json["Type"], type_path) != TensorType.BUFFER:
            raise DescriptorFormatError(type_path, "expected DML_TENSOR_TYPE_BUFFER")
    if "Desc" not in json:
        return {name: value for name, value in json.items() if name != "Type"}, path
    path = f"{path}.Desc" if path else "Desc"
    extra = [name for name in json if name not in ("Type", "Desc")]
    if extra:
        raise DescriptorFormatError(
            path, f"unexpected field {quoted(extra[0])} beside Desc{did_you_mean(extra[0], _JSON_FIELDS)}"
        )
    return read_object(json["Desc"], path), path


def _parse(name: str, parse: Any, value: object) -> Any:
    try:
        return parse(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidDescriptorError(f"{name}: {error}") from None


def _integer(name: str, value: object) -> int:
    if not isinstance(value, bool):
        with contextlib.suppress(Exception):  # whatever a foreign object raises
            return operator.index(value)  # type: ignore[arg-type]
    raise InvalidDescriptorError(f"{name}: expected an integer, got {quoted(value)}")


def _integers(name: str, values: object) -> tuple[int, ...]:
    if type(values) in (tuple, list) and set(map(type, values)) <= {int}:  # type: ignore[call-overload]
        return tuple(values)  # type: ignore[arg-type]
    if not isinstance(values, (str, bytes, Mapping)):
        try:
            given: tuple[object, ...] = tuple(values)  # type: ignore[arg-type]
        except Exception:  # whatever a foreign object raises when it is gone through
            raise InvalidDescriptorError(f"{name}: expected a sequence of integers, got {quoted(values)}") from None
        return tuple(_integer(f"{name}[{position}]", value) for position, value in enumerate(given))
    raise InvalidDescriptorError(f"{name}: expected a sequence of integers, got {quoted(values)}")

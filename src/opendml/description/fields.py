"""The kinds of fields that operator descriptors are made of.

A ``Field`` knows how its values are brought into canonical form, what is wrong with a value that has none, and how
values are written to and read from JSON.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opendml.description.enums import DirectMLEnum, FeatureLevel, OperatorType, TensorDataType, dml_type_name
from opendml.description.errors import DescriptorFormatError
from opendml.description.json_values import (
    Reading,
    check_fields,
    describe,
    join,
    read_array,
    read_bool,
    read_enum,
    read_float,
    read_integer,
    read_object,
    to_float32,
    write_float,
)
from opendml.description.operator_classes import is_operator, operator_in
from opendml.description.structs import ScalarUnion, ScaleBias, Size2D
from opendml.description.tensor import MAXIMUM_UINT, TensorDesc

REQUIRED: Final = object()


class Problem(NamedTuple):
    """Something wrong with a value: where in it (``[2]``, ``.Width`` or nothing), what it must be and what it is."""

    where: str
    must: str
    got: object


class Field:
    """One field of a descriptor. ``optional`` says that the field may be absent (NULL) in DirectML.

    ``kind`` is its type in DirectML, ``python_type`` what a constructor takes for it.
    """

    kind = ""
    python_type = "Any"

    def __init__(
        self, *, default: Any = REQUIRED, optional: bool = False, after: str = "", json_name: str = ""
    ) -> None:
        self.default = default
        self.optional = optional
        self.after = after
        self.name = ""
        self.json_name = json_name

    def bind(self, name: str) -> None:
        """Tells the field its name, which the class that it belongs to knows."""
        self.name = name
        self.json_name = self.json_name or camel_case(name)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.json_name}>"

    @property
    def is_required(self) -> bool:
        """Whether the field must be given to construct a descriptor."""
        return self.default is REQUIRED

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """The canonical form of a value, or the value itself if it has none. ``values`` are those of all fields."""
        return value

    def problems(self, value: Any) -> Iterator[Problem]:
        """What is wrong with a normalised value."""
        return iter(())

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """A value for JSON."""
        return value

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> Any:
        """A value from JSON; ``desc`` are all fields in JSON. Raises ``DescriptorFormatError``."""
        return json

    def absent(self, value: Any) -> Iterator[Problem]:
        """The problem of a value that is not given although DirectML needs it."""
        if value is None and not self.optional:
            yield Problem("", "must be given", "")


def is_integers(value: object) -> bool:
    """Whether a value is a list or tuple of nothing but Python's own integers: most arrays are, so it is quick."""
    return type(value) in (tuple, list) and set(map(type, value)) <= {int}  # type: ignore[call-overload]


def camel_case(name: str) -> str:
    """``input_window_sizes`` -> ``InputWindowSizes``; ``roi_tensor`` -> ``ROITensor``."""
    return "".join("ROI" if part == "roi" else part[:1].upper() + part[1:] for part in name.split("_"))


class TensorField(Field):
    """A tensor that is read or written."""

    kind = "DML_TENSOR_DESC"
    python_type = "TensorDesc"

    def __init__(self, direction: str, **options: Any) -> None:
        super().__init__(**options)
        self.direction = direction

    def problems(self, value: Any) -> Iterator[Problem]:
        """Anything but a tensor description, or nothing where one is needed."""
        yield from self.absent(value)
        if value is not None and not isinstance(value, TensorDesc):
            yield Problem("", "must be a TensorDesc", value)

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """As ``TensorDesc.to_json``."""
        return value.to_json() if isinstance(value, TensorDesc) else value

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> TensorDesc:
        """As ``TensorDesc.from_json``."""
        return TensorDesc.from_json(json, path)


class IntegerField(Field):
    """An integer of a fixed range."""

    python_type = "int"

    def __init__(self, kind: str, low: int, high: int, **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind
        self.low = low
        self.high = high

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """Integers of any type, NumPy's included, as Python's."""
        if type(value) is int or isinstance(value, bool):
            return value
        try:
            return python_operator.index(value)
        except TypeError:
            return value

    def problems(self, value: Any) -> Iterator[Problem]:
        """Not an integer, or out of range."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            yield Problem("", f"must be an integer from {self.low} to {self.high}", value)

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> int:
        """An integer, not yet checked for its range."""
        return read_integer(json, path)


class CountField(IntegerField):
    """The length of arrays; by default that of the arrays given, or of most of them.

    ``rank_of``: tensors, the first one of sound rank decides, whose DimensionCount it is, or ``less`` than that.
    """

    def __init__(self, array: str, rank_of: Sequence[str] = (), less: int = 0, **options: Any) -> None:
        super().__init__("UINT", 0, MAXIMUM_UINT, **options)
        self.array = array
        self.rank_of = rank_of
        self.less = less


class BooleanField(Field):
    """A BOOL."""

    kind = "BOOL"
    python_type = "bool"

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """0 and 1 become False and True."""
        return bool(value) if isinstance(value, (bool, int)) and value in (0, 1) else value

    def problems(self, value: Any) -> Iterator[Problem]:
        """Neither True nor False."""
        if not isinstance(value, bool):
            yield Problem("", "must be a BOOL, true or false", value)

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> bool:
        """true, false, 1 or 0."""
        return read_bool(json, path)


class FloatField(Field):
    """A FLOAT: an IEEE single, kept as the Python float of the same value. NaN and infinities are allowed."""

    kind = "FLOAT"
    python_type = "float"

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """The nearest IEEE single."""
        number = _number(value)
        return value if number is None else to_float32(number)

    def problems(self, value: Any) -> Iterator[Problem]:
        """Not a number."""
        if not isinstance(value, float):
            yield Problem("", "must be a number", value)

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """A number, or "inf", "-inf" or "nan"."""
        return write_float(value) if isinstance(value, float) else value

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> float:
        """A number, or "inf", "-inf" or "nan"."""
        return read_float(json, path)


class EnumField(Field):
    """A member of an enumeration."""

    def __init__(self, enumeration: type[DirectMLEnum], **options: Any) -> None:
        super().__init__(**options)
        self.enumeration = enumeration
        self.kind = dml_type_name(enumeration)
        self.python_type = f"{enumeration.__name__} | str"

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """Names and numbers as members."""
        try:
            return self.enumeration.parse(value)
        except ValueError:
            return value

    def problems(self, value: Any) -> Iterator[Problem]:
        """Not a member."""
        if not isinstance(value, self.enumeration):
            yield Problem("", f"must be a {self.kind} ({self.enumeration.alternatives(value)})", value)

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """The full spelling; data types are abbreviated as in tensors."""
        if not isinstance(value, self.enumeration):
            return value
        return value.name if isinstance(value, TensorDataType) else value.dml_name

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> DirectMLEnum:
        """A name, full or abbreviated, or a number."""
        return read_enum(self.enumeration, json, path)


class ArrayField(Field):
    """An array whose elements are like those of another field, and whose length is in the field ``count``."""

    def __init__(self, element: Field, count: str, **options: Any) -> None:
        super().__init__(**options)
        self.element = element
        self.count = count
        self.kind = f"{element.kind}[{camel_case(count)}]"
        self.python_type = f"Sequence[{element.python_type}]"

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """A tuple of normalised elements."""
        if is_integers(value) and isinstance(self.element, IntegerField):
            return tuple(value)
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            return value
        try:
            items = tuple(value)
        except Exception:  # whatever a foreign object raises when it is gone through: it is no array
            return value
        return tuple(self.element.normalise(item, values) for item in items)

    def problems(self, value: Any) -> Iterator[Problem]:
        """Not an array, or what is wrong with its elements."""
        yield from self.absent(value)
        if value is not None and not isinstance(value, tuple):
            yield Problem("", "must be an array", value)
        for position, item in enumerate(value if isinstance(value, tuple) else ()):
            for problem in self.element.problems(item):
                yield Problem(f"[{position}]{problem.where}", problem.must, problem.got)

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """A list."""
        return [self.element.encode(item, values) for item in value] if isinstance(value, tuple) else value

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> tuple[Any, ...]:
        """An array of elements."""
        reading, items = Reading(), list[Any]()
        for position, item in enumerate(read_array(json, path)):
            with reading.attempt():
                items.append(self.element.decode(item, f"{path}[{position}]", desc))
        reading.finish()
        return tuple(items)


class TensorArrayField(ArrayField):
    """An array of tensors that are read or written."""

    def __init__(self, direction: str, count: str, **options: Any) -> None:
        super().__init__(TensorField(direction), count, **options)
        self.direction = direction


# The member of the union that DxDispatch reads for a data type.
_UNION_MEMBERS = {
    **{getattr(TensorDataType, f"INT{bits}"): f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(TensorDataType, f"UINT{bits}"): f"UInt{bits}" for bits in (8, 16, 32, 64)},
    TensorDataType.FLOAT16: "UInt16",
    TensorDataType.FLOAT32: "Float32",
    TensorDataType.FLOAT64: "Float64",
}


class ScalarUnionField(Field):
    """A ``ScalarUnion`` whose type is in another field of the descriptor."""

    kind = "DML_SCALAR_UNION"
    python_type = "ScalarUnion | float"

    def __init__(self, data_type: str, **options: Any) -> None:
        super().__init__(**options)
        self.data_type = data_type

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """Numbers become unions where they fit."""
        number = None if isinstance(value, ScalarUnion) else _number(value)
        try:
            return value if number is None else ScalarUnion.of(number, TensorDataType.parse(values[self.data_type]))
        except ValueError:
            return value

    def problems(self, value: Any) -> Iterator[Problem]:
        """Not a number of the data type."""
        if not isinstance(value, ScalarUnion) or len(value.data) != 8:
            yield Problem("", f"must be a number that {camel_case(self.data_type)} can hold", value)

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """A number (or "inf", "-inf", "nan") where that is exact, else the bytes."""
        data_type = values[self.data_type]
        if not isinstance(value, ScalarUnion) or not isinstance(data_type, TensorDataType):
            return value
        if data_type.bits:
            number = value.as_type(data_type)
            if ScalarUnion.of(number, data_type) == value:
                return write_float(number, data_type is not TensorDataType.FLOAT64) if data_type.is_float else number
        return {"Bytes": list(value.data)}

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> Any:
        """A number, a string such as "inf", an object with the member of the data type, or one with ``Bytes``."""
        json_type = camel_case(self.data_type)
        if not isinstance(json, Mapping):
            return read_float(json, path) if isinstance(json, str) else _read_number(json, path)
        data_type = read_enum(TensorDataType, desc.get(json_type), join(path.rpartition(".")[0], json_type))
        member = _UNION_MEMBERS.get(data_type, "Bytes")
        check_fields(json, (member, "Bytes"), (), path)
        if "Bytes" in json:
            return ScalarUnion(_read_bytes(json["Bytes"], join(path, "Bytes")))
        check_fields(json, (member,), (member,), path)
        if member.startswith("Float"):
            return read_float(json[member], join(path, member))
        number = read_integer(json[member], join(path, member))
        try:
            return ScalarUnion.of(number, TensorDataType.UINT16 if data_type.is_float else data_type)
        except ValueError as error:
            raise DescriptorFormatError(join(path, member), str(error)) from None


class StructField(Field):
    """A small struct of numbers, kept as a named tuple."""

    def __init__(self, kind: str, struct_type: type[ScaleBias | Size2D], element: Field, **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind
        self.python_type = f"{struct_type.__name__} | tuple[{element.python_type}, {element.python_type}]"
        self.struct_type: Any = struct_type
        self.element = element

    def normalise(self, value: Any, values: Mapping[str, Any]) -> Any:
        """Any pair of numbers as the struct."""
        if isinstance(value, (tuple, list)) and len(value) == len(self.struct_type._fields):
            return self.struct_type(*(self.element.normalise(item, values) for item in value))
        return value

    def problems(self, value: Any) -> Iterator[Problem]:
        """Not the struct, or what is wrong with its members."""
        yield from self.absent(value)
        if value is None:
            return
        if not isinstance(value, self.struct_type):
            yield Problem("", f"must be a {self.kind}", value)
            return
        for name, item in zip(self.struct_type._fields, value, strict=True):
            for problem in self.element.problems(item):
                yield Problem(f".{camel_case(name)}", problem.must, problem.got)

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """An object."""
        if not isinstance(value, self.struct_type):
            return value
        names = self.struct_type._fields
        return {camel_case(name): self.element.encode(getattr(value, name), values) for name in names}

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> Any:
        """An object with all members."""
        members = [camel_case(name) for name in self.struct_type._fields]
        check_fields(read_object(json, path), members, members, path)
        return self.struct_type(*(self.element.decode(json[name], join(path, name), desc) for name in members))


class OperatorField(Field):
    """A fused activation: an operator without tensors. ``accepts``: those allowed, and from which level on.

    ``is_of_output``: whether it is applied to the operator's output, so that the activation's rules for tensors hold
    there.
    """

    kind = "DML_OPERATOR_DESC"
    python_type = "Operator"

    def __init__(
        self, accepts: Mapping[OperatorType, FeatureLevel], *, is_of_output: bool = True, **options: Any
    ) -> None:
        super().__init__(**options)
        self.accepts = accepts
        self.is_of_output = is_of_output

    def problems(self, value: Any) -> Iterator[Problem]:
        """Not an operator, or nothing where one is needed."""
        yield from self.absent(value)
        if value is not None and not is_operator(value):
            yield Problem("", "must be an operator", value)

    def encode(self, value: Any, values: Mapping[str, Any]) -> Any:
        """The operator's name and fields inline, as DxDispatch's models have them."""
        if not hasattr(value, "to_json"):
            return value
        json = value.to_json()
        return {"Type": json["Type"], **json["Desc"]}

    def decode(self, json: Any, path: str, desc: Mapping[str, Any]) -> Any:
        """As ``Operator.from_json``."""
        return operator_in(read_object(json, path), path).from_json(json, path)


class OperatorArrayField(ArrayField):
    """An array of activations."""

    def __init__(
        self, accepts: Mapping[OperatorType, FeatureLevel], count: str, *, is_of_output: bool = True, **options: Any
    ) -> None:
        super().__init__(OperatorField(accepts, is_of_output=is_of_output), count, **options)


def _number(value: Any) -> int | float | None:
    """A Python or NumPy number as a Python one; None for everything else."""
    if isinstance(value, (bool, str, bytes, complex)):
        return None
    for convert in (python_operator.index, float):
        try:
            return convert(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return None


def _read_number(json: Any, path: str) -> int | float:
    if isinstance(json, bool) or not isinstance(json, (int, float)):
        raise DescriptorFormatError(path, f"expected a number or an object, got {describe(json)}")
    return json


def _read_bytes(json: Any, path: str) -> bytes:
    items = [read_integer(item, f"{path}[{position}]") for position, item in enumerate(read_array(json, path))]
    if len(items) != 8 or not all(0 <= item <= 255 for item in items):
        raise DescriptorFormatError(path, "expected 8 integers from 0 to 255")
    return bytes(items)

"""Operator descriptors: one immutable, hashable class an operator, field for field DirectML's structs.

A class is declared by its fields, in DirectML's order, its support table and its own rules::

    class Slice1(Operator, type=OperatorType.SLICE1, since="2_1"):
        \"\"\"Copies a strided window of the input.\"\"\"

        input_tensor: TensorDesc = tensor_input()
        output_tensor: TensorDesc = tensor_output()
        dimension_count: int = count_of("input_window_offsets", default=None)
        input_window_offsets: tuple[int, ...] = uint_array(count="dimension_count")
        ...

Constructing a descriptor never judges it: values are brought into their canonical form (lists become tuples, names of
enumeration members become members, floats are rounded to IEEE single) and what cannot be stays as it is, for the rules
to report together with everything else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

from opendml.description.enums import FeatureLevel, OperatorType, TensorDataType
from opendml.description.errors import DescriptorArgumentError, DescriptorFormatError
from opendml.description.field_declarations import (
    boolean,
    count_of,
    enumeration,
    float_array,
    float_value,
    int_array,
    int_value,
    operator_array,
    operator_desc,
    scalar_union,
    scale_bias,
    size_2d,
    tensor_input,
    tensor_inputs,
    tensor_output,
    tensor_outputs,
    uint,
    uint_array,
)
from opendml.description.field_documentation import documentation_of, signature_of
from opendml.description.fields import (
    ArrayField,
    CountField,
    Field,
    OperatorField,
    TensorArrayField,
    TensorField,
    is_integers,
)
from opendml.description.json_values import Reading, check_fields, join, read_object
from opendml.description.names import did_you_mean
from opendml.description.operator_classes import operator_in, register, type_name_in
from opendml.description.quoting import quoted

if TYPE_CHECKING:
    from inspect import Signature

    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc
    from opendml.expression.statements import Definition

__all__ = [
    "LevelSupport",
    "Operator",
    "OperatorDesc",
    "Support",
    "TensorSupport",
    "at",
    "boolean",
    "count_of",
    "enumeration",
    "float_array",
    "float_value",
    "int_array",
    "int_value",
    "levels",
    "operator_array",
    "operator_desc",
    "scalar_union",
    "scale_bias",
    "size_2d",
    "tensor_input",
    "tensor_inputs",
    "tensor_output",
    "tensor_outputs",
    "uint",
    "uint_array",
]


class TensorSupport(NamedTuple):
    """What one tensor of an operator may be at one feature level."""

    minimum_rank: int
    maximum_rank: int
    data_types: tuple[TensorDataType, ...]


class LevelSupport(NamedTuple):
    """One row of a support table: valid from ``level`` on, until a row with a higher level."""

    level: FeatureLevel
    ranks: tuple[int, int]
    data_types: tuple[TensorDataType, ...]
    exceptions: tuple[tuple[str, tuple[TensorDataType, ...]], ...]
    other_ranks: tuple[tuple[str, tuple[int, int]], ...] = ()

    def of(self, field: str) -> TensorSupport:
        """The support of the tensor in a field."""
        ranks = dict(self.other_ranks).get(field, self.ranks)
        return TensorSupport(*ranks, dict(self.exceptions).get(field, self.data_types))


Support = tuple[LevelSupport, ...]


def at(
    level: str,
    ranks: tuple[int, int],
    data_types: tuple[TensorDataType, ...],
    other_ranks: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    /,
    **exceptions: tuple[TensorDataType, ...],
) -> LevelSupport:
    """A row of a support table. ``other_ranks`` and ``exceptions`` are the ranks and the data types of the fields that
    have other ones."""
    return LevelSupport(
        FeatureLevel.parse(level), ranks, data_types, tuple(exceptions.items()), tuple(other_ranks.items())
    )


def levels(*rows: LevelSupport) -> Support:
    """A support table."""
    return rows


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        boolean,
        count_of,
        enumeration,
        float_array,
        float_value,
        int_array,
        int_value,
        operator_array,
        operator_desc,
        scalar_union,
        scale_bias,
        size_2d,
        tensor_input,
        tensor_inputs,
        tensor_output,
        tensor_outputs,
        uint,
        uint_array,
    ),
)
class Operator:
    """Base of the descriptors; as ``opendml.OperatorDesc`` the place where descriptors in JSON are read.

    Subclasses are constructed with keywords only. ``DescriptorArgumentError`` (a TypeError) is raised for a missing or
    an unknown field, never for a bad value.
    """

    type: ClassVar[OperatorType] = OperatorType.INVALID
    since: ClassVar[FeatureLevel] = FeatureLevel.LEVEL_1_0
    fields: ClassVar[Mapping[str, Field]] = {}
    arrays_by_count: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The arrays that each count is for, first the one that decides where they disagree."""
    support: ClassVar[Support] = ()
    support_variants: ClassVar[Mapping[str, Support]] = {}
    in_place: ClassVar[bool] = False
    __signature__: ClassVar[Signature]

    def __init_subclass__(cls, *, type: OperatorType | None = None, since: str = "1_0") -> None:
        cls.fields = _collect_fields(cls)
        cls.arrays_by_count = {
            name: _arrays_of(cls.fields, name, field)
            for name, field in cls.fields.items()
            if isinstance(field, CountField)
        }
        if type is not None:
            cls.type = type
            cls.since = FeatureLevel.parse(since)
            cls.__doc__ = documentation_of(cls.__doc__, struct_name(type), cls.fields)
            cls.__signature__ = signature_of(cls.fields)
            register(cls)

    def __init__(self, **values: Any) -> None:
        fields = self.fields
        for name in values:
            if name not in fields:
                hint = did_you_mean(name, fields)
                raise DescriptorArgumentError(f"{self.__class__.__name__} has no field {quoted(name)}{hint}")
        missing = [name for name, field in fields.items() if field.is_required and name not in values]
        if missing:
            raise DescriptorArgumentError(f"{self.__class__.__name__} needs {', '.join(missing)}")
        complete = {name: values.get(name, field.default) for name, field in fields.items()}
        own = self.__dict__
        for name, field in fields.items():
            own[name] = field.normalise(complete[name], complete)
        for name, arrays in self.arrays_by_count.items():
            if own[name] is None:
                own[name] = _common_length([own[array] for array in arrays])

    def check(self, rules: Rules) -> None:
        """Reports what breaks the operator's own rules; the general ones are checked before."""

    def define(self) -> Definition:
        """What the operator computes, for a valid descriptor; every operator's class has its own."""
        raise TypeError(f"{self.__class__.__name__} has no definition")

    def support_table(self) -> Support:
        """The support table that applies to this descriptor (REDUCE has one a function)."""
        return self.support

    def inputs(self) -> tuple[tuple[str, TensorDesc | None], ...]:
        """The input tensors in DirectML's binding order, arrays expanded: ``(("InputTensors[0]", desc), ...)``.
        An absent optional tensor is there as ``None``."""
        return tuple(self._tensors("input"))

    def outputs(self) -> tuple[tuple[str, TensorDesc | None], ...]:
        """The output tensors in DirectML's binding order, as ``inputs``."""
        return tuple(self._tensors("output"))

    def _tensors(self, direction: str) -> Iterator[tuple[str, TensorDesc | None]]:
        for name, field in self.fields.items():
            value = self.__dict__[name]
            if isinstance(field, TensorField) and field.direction == direction:
                yield field.json_name, value
            elif isinstance(field, TensorArrayField) and field.direction == direction:
                for position, tensor in enumerate(value if isinstance(value, tuple) else ()):
                    yield f"{field.json_name}[{position}]", tensor

    def values(self) -> dict[str, Any]:
        """The fields' values by name, in DirectML's order."""
        return {name: self.__dict__[name] for name in self.fields}

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed. Counts are computed anew unless they are among them."""
        kept = {name: self.__dict__[name] for name, field in self.fields.items() if not isinstance(field, CountField)}
        return self.__class__(**(kept | changes))

    def to_json(self) -> dict[str, Any]:
        """The descriptor in DirectML's spelling, ``{"Type": ..., "Desc": {...}}``; absent optional fields are left
        out. ``from_json`` gives an equal descriptor again."""
        values = self.__dict__
        desc = {field.json_name: field.encode(values[name], values) for name, field in self.fields.items()}
        return {"Type": self.type.dml_name, "Desc": {name: json for name, json in desc.items() if json is not None}}

    @classmethod
    def from_json(cls, json: object, path: str = "") -> Self:
        """Reads a descriptor, its fields under ``Desc`` or inline beside ``Type``, as DxDispatch accepts them.

        Names of operators and enumeration members may be full or abbreviated, members also numbers; floats may be
        "inf", "-inf" or "nan". Called on an operator's class it accepts that operator only. Raises
        ``DescriptorFormatError`` with the paths of all that cannot be read, and ``UnknownOperatorError``'s text with it
        for operators that do not exist.
        """
        given = read_object(json, path)
        operator = operator_in(given, path)
        fields, path = _fields_in(given, path)
        if not issubclass(operator, cls):
            raise DescriptorFormatError(join(path, "Type"), f"expected {cls.type.dml_name}")
        names = {field.json_name: name for name, field in operator.fields.items()}
        required = [field.json_name for field in operator.fields.values() if field.is_required]
        reading, values = Reading(), dict[str, Any]()
        with reading.attempt():
            check_fields(fields, names, required, path)
        for json_name, value in fields.items():
            field = operator.fields[names[json_name]] if json_name in names else None
            with reading.attempt():
                if value is None and json_name in required:
                    raise DescriptorFormatError(join(path, json_name), "null is not allowed here")
                if field is not None and value is not None:
                    values[field.name] = field.decode(value, join(path, json_name), fields)
        reading.finish()
        return operator(**values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, and copied, by the values of its fields."""
        return _constructed, (self.__class__, self.values())

    def _key(self) -> tuple[object, ...]:
        key: tuple[object, ...] | None = self.__dict__.get("_cached_key")
        if key is None:
            key = (self.type, *(identity(self.__dict__[name]) for name in self.fields))
            self.__dict__["_cached_key"] = key
        return key

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Operator) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self.__class__.__name__} is immutable; use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self.__class__.__name__} is immutable")

    def __repr__(self) -> str:
        given = ((name, self.__dict__[name]) for name in self.fields)
        parts = (f"{name}={value!r}" for name, value in given if value is not None)
        return f"{self.__class__.__name__}({', '.join(parts)})"


OperatorDesc = Operator


def struct_name(operator_type: OperatorType) -> str:
    """DirectML's name of an operator's struct: ``DML_SLICE1_OPERATOR_DESC``."""
    return f"DML_{operator_type.name}_OPERATOR_DESC"


def _constructed(operator: type[Operator], values: Mapping[str, Any]) -> Operator:
    return operator(**values)


def identity(value: object) -> object:
    """What decides whether two values are the same: floats by their bits, so that NaN equals itself and -0.0 differs
    from 0.0 and an integer from both."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, tuple) and not is_integers(value):
        return tuple(identity(item) for item in value)
    return value


def _collect_fields(cls: type[Operator]) -> dict[str, Field]:
    """The inherited fields and the class's own ones, those with ``after`` put behind the field named there."""
    names = list(cls.__base__.fields) if cls.__base__ and issubclass(cls.__base__, Operator) else []
    fields = dict(cls.__base__.fields) if names else {}  # type: ignore[union-attr]
    for name, value in vars(cls).items():
        if isinstance(value, Field):
            value.bind(name)
            if name not in names:
                names.insert(names.index(value.after) + 1 if value.after else len(names), name)
            fields[name] = value
    return {name: fields[name] for name in names}


def _arrays_of(fields: Mapping[str, Field], name: str, count: CountField) -> list[str]:
    arrays = [array for array, field in fields.items() if isinstance(field, ArrayField) and field.count == name]
    return sorted(arrays, key=lambda array: array != count.array)


def _common_length(arrays: Sequence[object]) -> int:
    """The length of most arrays; of the first of equally many. 0 without any."""
    lengths = [len(array) for array in arrays if isinstance(array, tuple)]
    return max(lengths, key=lengths.count, default=0)


def _fields_in(json: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], str]:
    """The fields of an operator and their path, under ``Desc`` or inline, in either letter case."""
    type_name = type_name_in(json)
    desc_name = next((name for name in ("Desc", "desc") if name in json), None)
    if desc_name is None:
        return {name: value for name, value in json.items() if name != type_name}, path
    check_fields(json, (type_name or "Type", desc_name), (), path)
    return read_object(json[desc_name], join(path, desc_name)), join(path, desc_name)


def attached_operators(operator: Operator) -> Iterable[tuple[str, OperatorField, Operator]]:
    """The fused activations of a descriptor: location in snake_case, field and activation."""
    for name, field in operator.fields.items():
        value = getattr(operator, name)
        if isinstance(field, OperatorField) and isinstance(value, Operator):
            yield name, field, value
        elif isinstance(field, ArrayField) and isinstance(field.element, OperatorField) and isinstance(value, tuple):
            for position, item in enumerate(value):
                if isinstance(item, Operator):
                    yield f"{name}[{position}]", field.element, item

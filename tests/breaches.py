"""Breaches of a valid descriptor: one thing changed each, so that a rule is broken, and what follows from two of them.

``breaches(desc)`` are made from the kinds of the operator's fields alone, for any operator. Two of them that change
different things must both be named when they stand together: ``missing(first, second)`` are the names that are not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, OperatorType, TensorDataType
from opendml.description.fields import (
    ArrayField,
    BooleanField,
    CountField,
    EnumField,
    Field,
    FloatField,
    IntegerField,
    OperatorField,
    ScalarUnionField,
    StructField,
    TensorArrayField,
    TensorField,
    camel_case,
)
from opendml.description.rules import Violation
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

CHOICES = {
    (OperatorType.REDUCE, "Function"),
    (OperatorType.CONVOLUTION, "Direction"),
    (OperatorType.RNN, "Direction"),
    (OperatorType.MULTIHEAD_ATTENTION, "MaskType"),
    (OperatorType.MULTIHEAD_ATTENTION1, "MaskType"),
    (OperatorType.GRU, "Direction"),
    (OperatorType.LSTM, "Direction"),
    (OperatorType.GEMM, "TransA"),
    (OperatorType.GEMM, "TransB"),
}
"""Fields that choose between rules: beside a breach of one of them it is open which of those hold."""


@dataclass(frozen=True)
class Change:
    """One thing set to another value: a path of field, member or position, and the names that messages have for it."""

    path: tuple[str | int, ...]
    value: Any
    names: tuple[str, ...]

    def apply(self, desc: Operator) -> Operator:
        """The descriptor with the change. A count keeps its value, whatever becomes of its arrays."""
        counts = {name: getattr(desc, name) for name, field in desc.fields.items() if isinstance(field, CountField)}
        name = str(self.path[0])
        return desc.replace(**counts | {name: _changed(getattr(desc, name), self.path[1:], self.value)})

    def is_apart_from(self, other: Change) -> bool:
        """Whether the two change different things, neither of which is a part of the other."""
        length = min(len(self.path), len(other.path))
        return self.path[:length] != other.path[:length]


def _changed(whole: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        return (*whole[:key], _changed(whole[key], rest, value), *whole[key + 1 :])
    if isinstance(whole, TensorDesc):
        given = whole.total_size_in_bytes != whole.minimum_size_in_bytes
        kept = {"total_size_in_bytes": whole.total_size_in_bytes} if given else {}
        return whole.replace(**kept | {key: _changed(getattr(whole, key), rest, value)})
    if isinstance(whole, Operator):
        return whole.replace(**{key: _changed(getattr(whole, key), rest, value)})
    return whole._replace(**{key: _changed(getattr(whole, key), rest, value)})


@dataclass(frozen=True)
class Breach:
    """A change that breaks at least one rule."""

    desc: Operator
    change: Change
    violations: tuple[Violation, ...]


def breaches(desc: Operator, level: FeatureLevel = FeatureLevel.LEVEL_6_4) -> Iterator[Breach]:
    """The breaches of a valid descriptor."""
    for name, field in desc.fields.items():
        for change in _changes(field, getattr(desc, name), (name,), field.json_name):
            violations = tuple(validate(change.apply(desc), level))
            if any(violation.field for violation in violations):
                yield Breach(desc, change, violations)


def missing(first: Breach, second: Breach, level: FeatureLevel = FeatureLevel.LEVEL_6_4) -> list[str]:
    """What each breach has violated alone, and is not named where both stand together, although it has nothing to do
    with the other one: neither lies in the other's place nor quotes it."""
    both = validate(second.change.apply(first.change.apply(first.desc)), level)
    named = Counter(violation.field for violation in both)
    wanted = {(v.field, _shape(v.rule)) for breach, other in ((first, second), (second, first))
              for v in breach.violations if not _depends(breach.desc, v, other.change)}  # fmt: skip
    needed = Counter(field for field, _ in wanted)
    return sorted((needed - named).elements())


def _shape(rule: str) -> str:
    """A rule without its numbers and data types."""
    return re.sub(r"\d+|\b[A-Z]+\d+\b", "#", rule)


def _depends(desc: Operator, violation: Violation, change: Change) -> bool:
    """Whether a violation lies in the place of a change, or quotes it."""
    if any((desc.type, name) in CHOICES for name in change.names):
        return True
    places = [violation.field, *_quoted(desc, violation)]
    return any(_overlap(place, name) for place in places for name in change.names)


def _quoted(desc: Operator, violation: Violation) -> Iterator[str]:
    """The members that a rule quotes, in full; ``the DataType of InputTensor`` is InputTensor.DataType, and a lone
    member of a tensor is that of the violation's own."""
    fields = {field.json_name for field in desc.fields.values()}
    owner = re.split(r"\.", violation.field, maxsplit=1)[0]
    rule = re.sub(r"the (\w+) of ([\w\[\]]+)", r"\2.\1", violation.rule)
    for quoted in re.findall(r"\b[A-Z]\w*(?:\[\w+\])?(?:\.[A-Z]\w*(?:\[\w+\])?)*", rule):
        if re.split(r"[.\[]", quoted, maxsplit=1)[0] in fields:
            yield quoted
        if "." not in quoted:
            yield f"{owner}.{quoted}"


def _overlap(a: str, b: str) -> bool:
    """Whether one place is the other or a part of it; ``[i]`` is any position."""
    parts_a, parts_b = (re.findall(r"\w+", place) for place in (a, b))
    return all("i" in (x, y) or x == y for x, y in zip(parts_a, parts_b, strict=False))


# ---- what is tried for each kind of field

_Path = tuple[str | int, ...]


def _changes(field: Field, value: Any, path: _Path, name: str) -> Iterator[Change]:
    if isinstance(field, (TensorField, TensorArrayField)):
        items = [(path, name, value)]
        if isinstance(field, TensorArrayField):
            items = [((*path, i), f"{name}[{i}]", item) for i, item in enumerate(value)]
        for item_path, item_name, item in items:
            yield from _tensor_changes(field, item, item_path, item_name)
    elif isinstance(field, ArrayField):
        yield from _array_changes(field, value, path, name)
    elif isinstance(field, StructField) and value is not None:
        for member in value._fields:
            for change in (-1, 0, "x"):
                yield Change((*path, member), change, (f"{name}.{camel_case(member)}",))
    elif isinstance(field, OperatorField):
        yield Change(path, op.ActivationSoftmax1(axes=[99]), (name,))
        yield Change(path, op.Split(input_tensor=None, output_tensors=[], axis=0), (name,))  # type: ignore[arg-type]
        if value is not None and "alpha" in value.fields:
            yield Change((*path, "alpha"), "x", (f"{name}.Alpha",))
    else:
        for item in _scalars(field, value):
            yield Change(path, item, (name,))


def _scalars(field: Field, value: Any) -> Iterable[Any]:
    if isinstance(field, IntegerField) and isinstance(value, int):
        return (-1, 0, value + 1, 1000, 2**32)
    if isinstance(field, EnumField):
        others = [member for member in field.enumeration if member != value]
        return ("nonsense", *others[:2])
    if isinstance(field, (BooleanField, FloatField, ScalarUnionField)):
        return ("x",)
    return ()


def _array_changes(field: ArrayField, value: Any, path: _Path, name: str) -> Iterator[Change]:
    for i, item in enumerate(value):
        if isinstance(field.element, IntegerField):
            for element in (-(2**40), 0, item + 1, 1000):
                yield Change((*path, i), element, (f"{name}[{i}]",))
        elif isinstance(field.element, OperatorField):
            yield Change((*path, i), op.ActivationSoftmax(), (f"{name}[{i}]",))
        else:
            yield Change((*path, i), "x", (f"{name}[{i}]",))
    yield Change(path, value[:-1], (name,))
    yield Change(path, (*value, value[-1]) if value else value, (name,))


def _tensor_changes(field: Any, tensor: TensorDesc | None, path: _Path, name: str) -> Iterator[Change]:
    if tensor is None:
        return
    yield Change(path, None, (name,))
    for i, size in enumerate(tensor.sizes):
        for other in (0, 1, size + 1, 2**32):
            if other != size:
                yield Change((*path, "sizes", i), other, (f"{name}.Sizes[{i}]",))
    ranks = (f"{name}.Sizes", f"{name}.DimensionCount", f"{name}.Strides")
    for sizes in ((1,) * (9 - tensor.rank) + tensor.sizes, tensor.sizes[1:], (1, *tensor.sizes)):
        yield Change((*path, "sizes"), sizes, ranks)
    types = (TensorDataType.UNKNOWN, TensorDataType.INT4, TensorDataType.INT8, TensorDataType.FLOAT64)
    for data_type in types:
        if data_type != tensor.data_type:
            yield Change((*path, "data_type"), data_type, (f"{name}.DataType",))
    yield Change((*path, "flags"), 4, (f"{name}.Flags",))
    yield Change((*path, "flags"), 1, (f"{name}.Flags",))
    yield Change((*path, "total_size_in_bytes"), 2**64, (f"{name}.TotalTensorSizeInBytes",))
    yield Change((*path, "guaranteed_base_offset_alignment"), 3, (f"{name}.GuaranteedBaseOffsetAlignment",))
    for strides in ([0] * tensor.rank, [1] * (tensor.rank + 1), [-1] * tensor.rank):
        yield Change((*path, "strides"), strides, (f"{name}.Strides",))


def texts(desc: Operator, level: str = "6_4") -> list[str]:
    """The violations as text."""
    return [str(violation) for violation in validate(desc, level)]

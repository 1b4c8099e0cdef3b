"""Validation: everything that is wrong with a descriptor at a feature level, all at once.

``validate(desc, level)`` checks, in this order, that the operator exists at the level, each field by itself, the
tensors (what no operator allows, then the operator's support table), fused activations, and the operator's own rules.
A rule is skipped where it builds on something that is already reported, so that one mistake gives one violation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from opendml.description.descriptors import Operator, Support, TensorSupport, attached_operators
from opendml.description.enums import DirectMLEnum, FeatureLevel, TensorDataType, TensorFlags
from opendml.description.errors import DescriptorArgumentError, InvalidDescriptorError
from opendml.description.fields import ArrayField, EnumField, OperatorField, camel_case
from opendml.description.json_values import describe
from opendml.description.quoting import cut, printable, quoted
from opendml.description.tensor import (
    MAXIMUM_DIMENSION_COUNT,
    MAXIMUM_UINT,
    MAXIMUM_UINT64,
    TensorDesc,
    overlaps_itself,
)

__all__ = ["Rules", "Violation", "validate", "validate_or_raise"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: ``str`` of it is ``OutputTensor.Sizes[3]: must be from 1 to 2 (...), got 5``.

    ``operator`` is DirectML's name, ``field`` the place in its struct (empty: the operator as a whole), ``rule`` what
    must hold, ``got`` what was given, as text, ``allowed_at`` the lowest feature level that would allow it, if any. For
    calls of functions the place is one among their arguments, and ``cure`` is what to write there instead, if known.
    """

    operator: str
    field: str
    rule: str
    got: str = ""
    allowed_at: FeatureLevel | None = None
    cure: str = ""

    def __str__(self) -> str:
        text = f"{self.field}: {self.rule}" if self.field else self.rule
        if self.got:
            text += f", got {self.got}"
        if self.allowed_at is not None:
            text += f" (allowed from feature level {self.allowed_at} on)"
        if self.cure:
            text += f"; try {self.cure}"
        return text


def validate(desc: Operator, feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> list[Violation]:
    """All violations of a descriptor at a feature level; an empty list if it is valid."""
    rules = Rules(desc, FeatureLevel.parse(feature_level))
    for check in (_check_since, _check_fields, _check_counts, _check_tensors, _check_activations):
        check(rules)
    desc.check(rules)
    return rules.violations


def validate_or_raise(desc: Operator, feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> None:
    """Raises ``InvalidDescriptorError`` with all violations if there are any."""
    level = FeatureLevel.parse(feature_level)
    violations = validate(desc, level)
    if violations:
        message = f"{desc.type.dml_name} is invalid at feature level {level}:"
        raise InvalidDescriptorError(message, violations, desc=desc, feature_level=level)


class Rules:
    """Collects the violations of one descriptor and states the rules that many operators share.

    Places are written as in Python, ``output_tensor.sizes[2]``, and reported as in DirectML, ``OutputTensor.Sizes[2]``.
    A place that was reported counts as broken: ``ready`` tells whether fields can be relied on.
    """

    def __init__(self, desc: Operator, level: FeatureLevel) -> None:
        if not isinstance(desc, Operator):
            raise DescriptorArgumentError(f"expected the descriptor of an operator, got {quoted(desc)}")
        self.desc = desc
        self.level = level
        # Rules of a level that does not have the operator yet would be noise beside that.
        self.table_level = max(level, desc.since)
        self.violations: list[Violation] = []
        self.broken: set[str] = set()

    # ---- reporting

    def violate(self, place: str, must: str, got: object = "", *, allowed_at: FeatureLevel | None = None) -> None:
        """Reports a violation."""
        self.require(False, place, must, got, allowed_at=allowed_at)

    def require(
        self,
        condition: bool,
        place: str,
        must: str,
        got: object = "",
        *,
        allowed_at: FeatureLevel | None = None,
        breaks: bool = True,
    ) -> bool:
        """Reports a violation unless the condition holds, and returns it. ``breaks``: what builds on the field is
        not to be checked any more."""
        if not condition:
            got_text = printable(cut(got, 400)) if isinstance(got, str) else describe_value(got)
            operator_name, field = self.desc.type.dml_name, self.location(place)
            self.violations.append(Violation(operator_name, field, must, got_text, allowed_at))
            if breaks:
                self.broken.add(re.split(r"[.\[]", place, maxsplit=1)[0])
                self.broken.add(re.split(r"\.", place, maxsplit=1)[0])
        return condition

    def location(self, place: str) -> str:
        """DirectML's spelling of a place."""
        return ".".join(camel_case(part) for part in place.split("."))

    def ready(self, *fields: str) -> bool:
        """Whether fields are given and sound by themselves; arrays of the length that their count says."""
        return all(self._is_ready(name) for name in fields)

    def aligned(self, tensor: str, *arrays: str, less: int = 0) -> bool:
        """Whether a tensor and arrays are ready, with one element a dimension (or that many ``less``)."""
        rank = self.tensor(tensor).rank - less if self.ready(tensor, *arrays) else -1
        return rank >= 0 and all(len(getattr(self.desc, name)) == rank for name in arrays)

    def _is_ready(self, name: str) -> bool:
        field = self.desc.fields[name]
        if name in self.broken or getattr(self.desc, name) is None:
            return False
        return field.count not in self.broken if isinstance(field, ArrayField) else True

    # ---- values, for rules that name their fields

    def tensor(self, name: str) -> TensorDesc:
        """The tensor in a field that is ready."""
        tensor: TensorDesc = getattr(self.desc, name)
        return tensor

    def integer(self, name: str) -> int:
        """The integer in a field that is ready."""
        value: int = getattr(self.desc, name)
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """The integers in an array field; none if the field is not sound."""
        return getattr(self.desc, name) if self.ready(name) else ()

    def tensors(self, *names: str) -> list[tuple[str, TensorDesc]]:
        """The places and descriptions of the sound tensors among those in fields, arrays expanded."""
        found: list[tuple[str, TensorDesc]] = []
        for name in names:
            value = getattr(self.desc, name)
            places = [(name, value)]
            if isinstance(self.desc.fields[name], ArrayField):
                items = value if isinstance(value, tuple) else ()
                places = [(f"{name}[{position}]", item) for position, item in enumerate(items)]
            found += [(place, item) for place, item in places if isinstance(item, TensorDesc)]
        return [(place, item) for place, item in found if place not in self.broken]

    # ---- rules that operators share

    def same_data_type(self, *names: str) -> None:
        """All tensors have the data type of the first."""
        self._same(names, "", "DataType", lambda tensor: tensor.data_type, breaks=False)

    def same_rank(self, *names: str) -> None:
        """All tensors have as many dimensions as the first."""
        self._same(names, "", "DimensionCount", lambda tensor: tensor.rank)

    def same_sizes(self, *names: str) -> None:
        """All tensors have the sizes of the first (and so its rank)."""
        self._same(names, ".sizes", "Sizes", lambda tensor: tensor.sizes)

    def _same(
        self,
        names: Sequence[str],
        suffix: str,
        what: str,
        value_of: Callable[[TensorDesc], Any],
        breaks: bool = True,
    ) -> None:
        tensors = self.tensors(*names)
        for place, tensor in tensors[1:]:
            first_place, first = tensors[0]
            value, expected = value_of(tensor), value_of(first)
            must = f"must have the {what} of {self.location(first_place)}, {describe_value(expected)}"
            self.require(value == expected, place + suffix, must, value, breaks=breaks)

    def sizes_are(self, name: str, sizes: Sequence[int], reason: str) -> None:
        """A tensor has these sizes, one violation a dimension; of equal rank only if that is checked before."""
        for place, tensor in self.tensors(name):
            self.tensor_sizes_are(place, tensor, sizes, reason)

    def same_sizes_but_for_axis(self, name: str, like: str, size: int | None = None) -> None:
        """A tensor has the sizes of another one, but for the field ``axis``: there any, or the one given."""
        if self.ready(name, like, "axis"):
            axis, sizes = self.integer("axis"), self.tensor(like).sizes
            along = self.tensor(name).sizes[axis] if size is None else size
            expected = (*sizes[:axis], along, *sizes[axis + 1 :])
            self.sizes_are(name, expected, f"equal to {self.location(like)}.Sizes but for Axis")

    def tensor_sizes_are(self, place: str, tensor: TensorDesc, sizes: Sequence[int], reason: str) -> None:
        """As ``sizes_are`` for one tensor, of an array for instance."""
        if not self.require(tensor.rank == len(sizes), place, f"must have {len(sizes)} dimensions", tensor.rank):
            return
        for i, (size, expected) in enumerate(zip(tensor.sizes, sizes, strict=True)):
            self.require(size == expected, f"{place}.sizes[{i}]", f"must be {expected}, {reason}", size)

    def count_is_rank(self, count: str, tensor: str, less: int = 0) -> None:
        """A count is the rank of a tensor, or ``less`` than that."""
        if self.ready(count, tensor):
            expected = self.tensor(tensor).rank - less
            what = f"{self.location(tensor)}.DimensionCount" + (f" - {less}" if less else "")
            value = getattr(self.desc, count)
            self.require(value == expected, count, f"must be {what} = {expected}", value)

    def at_least(self, name: str, least: int) -> None:
        """An integer field is not less than that."""
        if self.ready(name):
            value = getattr(self.desc, name)
            self.require(value >= least, name, f"must be at least {least}", value)

    def each_at_least(self, name: str, least: int) -> None:
        """No element of an array is less than that. Does not break the field: later rules look at each element."""
        for i, value in enumerate(self.integers(name)):
            self.require(value >= least, f"{name}[{i}]", f"must be at least {least}", value, breaks=False)

    def axis_in_range(self, axis: str, tensor: str) -> None:
        """A field is the number of one of a tensor's dimensions."""
        if self.ready(axis, tensor):
            value, rank = getattr(self.desc, axis), self.tensor(tensor).rank
            what = f"must be less than {self.location(tensor)}.DimensionCount = {rank}"
            self.require(value < rank, axis, what, value)

    def axes_in_range(self, axes: str, tensor: str) -> None:
        """An array names at least one of a tensor's dimensions, and none twice."""
        if not self.ready(axes, tensor):
            return
        values, rank = self.integers(axes), self.tensor(tensor).rank
        self.require(len(values) > 0, axes, "must name at least one dimension", "none")
        for i, axis in enumerate(values):
            if self.require(axis < rank, f"{axes}[{i}]", f"must be less than the DimensionCount {rank}", axis):
                self.require(axis not in values[:i], f"{axes}[{i}]", "must not name a dimension again", axis)

    def is_data_type_of(self, name: str, tensor: str) -> None:
        """A field holds the data type of a tensor."""
        if self.ready(name, tensor):
            value, expected = getattr(self.desc, name), self.tensor(tensor).data_type
            what = f"must be the DataType of {self.location(tensor)}, {expected.name}"
            self.require(value == expected, name, what, value)


# ---- checks of every operator


def _check_since(rules: Rules) -> None:
    since, level = rules.desc.since, rules.level
    must = f"{rules.desc.type.dml_name} does not exist at feature level {level}"
    rules.require(level >= since, "", must, allowed_at=since, breaks=False)


def _check_fields(rules: Rules) -> None:
    for name, field in rules.desc.fields.items():
        value = getattr(rules.desc, name)
        for problem in field.problems(value):
            rules.violate(name + problem.where, problem.must, problem.got)
        if isinstance(field, EnumField) and isinstance(value, DirectMLEnum):
            must = f"must not be {value.dml_name} at feature level {rules.level}"
            rules.require(value.since <= rules.table_level, name, must, allowed_at=value.since, breaks=False)


def _check_counts(rules: Rules) -> None:
    for count, arrays in _arrays_by_count(rules).items():
        expected = getattr(rules.desc, count)
        lengths = {name: len(getattr(rules.desc, name)) for name in arrays}
        if rules.ready(count) and len(lengths) > 1 and len(set(lengths.values())) == 1:
            # Where the arrays agree it is the count that is wrong.
            must = f"must be {lengths[arrays[0]]}, the length of {rules.location(arrays[0])}"
            rules.require(expected == lengths[arrays[0]], count, must, expected)
            continue
        for name, length in lengths.items():
            must = f"must have {rules.location(count)} = {describe_value(expected)} elements"
            rules.require(length == expected, name, must, length)


def _arrays_by_count(rules: Rules) -> dict[str, list[str]]:
    """The sound arrays that share a count."""
    arrays: dict[str, list[str]] = {}
    for name, field in rules.desc.fields.items():
        if isinstance(field, ArrayField) and rules.ready(name):
            arrays.setdefault(field.count, []).append(name)
    return arrays


def _check_tensors(rules: Rules) -> None:
    for name, field in rules.desc.fields.items():
        direction = getattr(field, "direction", "")
        for place, tensor in rules.tensors(name) if direction else ():
            if _check_structure(rules, place, tensor, direction):
                _check_support(rules, name, place, tensor)


def _check_structure(rules: Rules, place: str, tensor: TensorDesc, direction: str) -> bool:
    """What holds for every tensor of every operator. Returns whether the sizes can be relied on."""
    if not rules.require(
        1 <= tensor.rank <= MAXIMUM_DIMENSION_COUNT,
        f"{place}.dimension_count",
        f"must be from 1 to {MAXIMUM_DIMENSION_COUNT}",
        tensor.rank,
    ):
        return False
    must = "must be a data type"
    sound = rules.require(tensor.data_type.bits > 0, f"{place}.data_type", must, tensor.data_type)
    for i, size in enumerate(tensor.sizes):
        must = f"must be from 1 to {MAXIMUM_UINT}"
        sound &= rules.require(1 <= size <= MAXIMUM_UINT, f"{place}.sizes[{i}]", must, size)
    if sound:
        must = f"must have at most {MAXIMUM_UINT} elements"
        sound = rules.require(tensor.element_count <= MAXIMUM_UINT, f"{place}.sizes", must, tensor.element_count)
    sound &= _check_strides(rules, place, tensor)
    if sound:
        _check_memory(rules, place, tensor)
        if direction == "output":
            _check_output(rules, place, tensor)
    return sound


def _check_strides(rules: Rules, place: str, tensor: TensorDesc) -> bool:
    if tensor.strides is None:
        return True
    count = len(tensor.strides)
    sound = rules.require(count == tensor.rank, f"{place}.strides", f"must have {tensor.rank} elements", count)
    for i, stride in enumerate(tensor.strides[:MAXIMUM_DIMENSION_COUNT]):
        must = f"must be from 0 to {MAXIMUM_UINT}"
        sound &= rules.require(0 <= stride <= MAXIMUM_UINT, f"{place}.strides[{i}]", must, stride)
    return sound


def _check_memory(rules: Rules, place: str, tensor: TensorDesc) -> None:
    total, least = tensor.total_size_in_bytes, tensor.minimum_size_in_bytes
    rules.require(
        least <= total <= MAXIMUM_UINT64,
        f"{place}.total_tensor_size_in_bytes",
        f"must be at least {least}, the size that DataType, Sizes and Strides imply, and less than 2^64",
        total,
        breaks=False,
    )
    alignment, element_size = tensor.guaranteed_base_offset_alignment, max(1, tensor.data_type.bits // 8)
    is_power_of_two = 0 < alignment <= MAXIMUM_UINT and alignment & (alignment - 1) == 0
    rules.require(
        alignment == 0 or (is_power_of_two and alignment >= element_size),
        f"{place}.guaranteed_base_offset_alignment",
        f"must be 0 or a power of two not less than the element size, {element_size}",
        alignment,
        breaks=False,
    )
    must = "must be known flags"
    rules.require(tensor.flags.unknown_bits == 0, f"{place}.flags", must, int(tensor.flags), breaks=False)


def _check_output(rules: Rules, place: str, tensor: TensorDesc) -> None:
    rules.require(
        TensorFlags.OWNED_BY_DML not in tensor.flags,
        f"{place}.flags",
        "must not have DML_TENSOR_FLAG_OWNED_BY_DML, which is for inputs",
        breaks=False,
    )
    rules.require(
        tensor.strides is None or not overlaps_itself(tensor.sizes, tensor.strides),
        f"{place}.strides",
        "must give every element of an output an address of its own",
        tensor.strides,
        breaks=False,
    )


def _check_support(rules: Rules, name: str, place: str, tensor: TensorDesc) -> None:
    """Rank and data type against the support table, each by itself."""
    table = rules.desc.support_table()
    current = support_at(table, name, rules.table_level)
    if current is None:
        return
    lowest, highest, data_types = current
    allowed_at = _first_level(table, name, lambda row: row.minimum_rank <= tensor.rank <= row.maximum_rank)
    ranks = f"rank {lowest}" if lowest == highest else f"rank {lowest} to {highest}"
    rules.require(
        lowest <= tensor.rank <= highest,
        place,
        f"must have {ranks} at feature level {rules.table_level}",
        f"rank {tensor.rank}",
        allowed_at=allowed_at,
        # A rank that some level allows makes sense to the other rules.
        breaks=allowed_at is None,
    )
    rules.require(
        tensor.data_type in data_types,
        place,
        f"must be {alternatives(data_types)} at feature level {rules.table_level}",
        tensor.data_type,
        allowed_at=_first_level(table, name, lambda row: tensor.data_type in row.data_types),
        breaks=False,
    )


def support_at(table: Support, field: str, level: FeatureLevel) -> TensorSupport | None:
    """What a support table says of a field at a level; None where it says nothing."""
    rows = [row for row in table if row.level <= level]
    return max(rows, key=lambda row: row.level).of(field) if rows else None


def _first_level(table: Support, field: str, allows: Callable[[TensorSupport], bool]) -> FeatureLevel | None:
    return min((row.level for row in table if allows(row.of(field))), default=None)


def _check_activations(rules: Rules) -> None:
    for place, field, activation in attached_operators(rules.desc):
        if _check_activation_type(rules, place, field, activation):
            _check_activation(rules, place, activation)


def _check_activation_type(rules: Rules, place: str, field: OperatorField, activation: Operator) -> bool:
    allowed_at = field.accepts.get(activation.type)
    level = rules.table_level
    return rules.require(
        allowed_at is not None and allowed_at <= level,
        place,
        f"must be an activation that {rules.desc.type.name} can fuse at feature level {level}",
        activation.type,
        allowed_at=allowed_at,
    )


def _check_activation(rules: Rules, place: str, activation: Operator) -> None:
    """An activation has no tensors of its own; the rest of its rules hold for the operator's output."""
    for name in ("input_tensor", "output_tensor"):
        value = getattr(activation, name)
        rules.require(value is None, f"{place}.{name}", "must not be given in a fused activation", value)
    outputs = [name for name, field in rules.desc.fields.items() if getattr(field, "direction", "") == "output"]
    hosts = [tensor for _, tensor in rules.tensors(*outputs)]
    if not hosts:
        return
    host = TensorDesc(hosts[0].data_type, hosts[0].sizes)
    inner = Rules(activation.replace(input_tensor=host, output_tensor=host), rules.table_level)
    _check_fields(inner)
    _check_counts(inner)
    inner.desc.check(inner)
    for found in inner.violations:
        rules.violate(f"{place}.{found.field}", found.rule, found.got, allowed_at=found.allowed_at)


# ---- texts


def describe_value(value: object) -> str:
    """A value for a message, as DirectML writes it, cut to a readable length."""
    if isinstance(value, TensorDataType):
        return value.name
    if isinstance(value, DirectMLEnum):
        return value.dml_name
    if value is None:
        return "nothing"
    if isinstance(value, (tuple, list)):
        shown = ", ".join(
            quoted(item) if isinstance(item, (tuple, list)) else describe_value(item)
            for item in value[:MAXIMUM_DIMENSION_COUNT]
        )
        return f"{{{shown}{', ...' if len(value) > MAXIMUM_DIMENSION_COUNT else ''}}}"
    return describe(value)


def alternatives(data_types: Iterable[TensorDataType]) -> str:
    """``FLOAT32, FLOAT16 or INT8``."""
    names = [data_type.name for data_type in data_types]
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]

"""Validation: everything that is wrong with a descriptor at a feature level, all at once.

``validate(desc, level)`` checks, in this order, that the operator exists at the level, each field by itself, the
tensors (what no operator allows, then the operator's support table), the lengths of arrays, fused activations, and the
operator's own rules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from opendml.description.descriptors import Operator, Support, TensorSupport, attached_operators
from opendml.description.enums import DirectMLEnum, FeatureLevel, TensorFlags
from opendml.description.errors import InvalidDescriptorError
from opendml.description.fields import CountField, EnumField, OperatorField
from opendml.description.rules import Rules, Violation, alternatives
from opendml.description.tensor import MAXIMUM_DIMENSION_COUNT, MAXIMUM_UINT, MAXIMUM_UINT64, TensorDesc


def validate(desc: Operator, feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> list[Violation]:
    """All violations of a descriptor at a feature level; an empty list if it is valid."""
    rules = Rules(desc, FeatureLevel.parse(feature_level))
    for check in (_check_since, _check_fields, _check_tensors, _check_counts, _check_activations):
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


# ---- checks of every operator


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
    """Arrays have as many elements as their count says, and that is a tensor's rank where it has to be.

    Where some disagree it is the others that are wrong than what most say: the ranks, the count and the arrays.
    """
    for count, arrays in rules.desc.arrays_by_count.items():
        values = {name: getattr(rules.desc, name) for name in arrays}
        lengths = {name: len(value) for name, value in values.items() if isinstance(value, tuple)}
        if not lengths:
            continue
        given, ranks = rules.integer(count), _ranks_behind(rules, count)
        right = _right_length(list(lengths.values()), given, [rank for rank, _ in ranks])
        if ranks:
            rank, of_rank = next((found for found in ranks if found[0] == right), ranks[0])
            rules.require(given in (None, rank), count, f"must be {of_rank} = {rank}", given)
            right = rank if given == rank else right
        elif given not in (None, right):
            named = next(name for name, length in lengths.items() if length == right)
            rules.violate(count, f"must be {right}, the length of {rules.location(named)}", given)
        if given is not None and _is_open(list(lengths.values()), given, [rank for rank, _ in ranks]):
            right = given
        for name, length in lengths.items():
            must = f"must have {rules.location(count)} = {right} elements"
            rules.require(length == right, name, must, length, breaks=False)


def _right_length(lengths: Sequence[int], given: int | None, ranks: Sequence[int]) -> int:
    """The length that arrays of one count should have."""
    if not ranks and given is not None and (given in lengths or len(lengths) == 1):
        return given
    votes = _votes(lengths, given, ranks)
    return max(votes, key=lambda length: (votes[length], length in lengths))


def _is_open(lengths: Sequence[int], given: int, ranks: Sequence[int]) -> bool:
    """Whether as much speaks for the count as for the arrays, one tensor having the rank that each wants: both are
    named then."""
    votes = _votes(lengths, given, ranks)
    return given in ranks and any(length in ranks and votes[length] == votes[given] for length in {*lengths} - {given})


def _votes(lengths: Sequence[int], given: int | None, ranks: Sequence[int]) -> Counter[int]:
    return Counter([*lengths, *ranks, *([] if given is None else [given])])


def _ranks_behind(rules: Rules, count: str) -> list[tuple[int, str]]:
    """The ranks that a count is to be, less the dimensions that the arrays leave out, and their names in messages."""
    field = rules.desc.fields[count]
    if not isinstance(field, CountField):
        return []
    less = f" - {field.less}" if field.less else ""
    found = [(rules.rank(tensor), rules.location(tensor)) for tensor in field.rank_of]
    return [(rank - field.less, f"{tensor}.DimensionCount{less}") for rank, tensor in found if rank is not None]


def _check_tensors(rules: Rules) -> None:
    for name, field in rules.desc.fields.items():
        direction = getattr(field, "direction", "")
        tensors = rules.tensors(name) if direction else ()
        if not tensors:
            continue
        table = rules.desc.support_table()
        support = support_at(table, name, rules.table_level)
        for place, tensor in tensors:
            _check_structure(rules, place, tensor, direction)
            if support is not None:
                _check_support(rules, name, place, tensor, table, support)


def _check_structure(rules: Rules, place: str, tensor: TensorDesc, direction: str) -> None:
    """What holds for every tensor of every operator."""
    if not 1 <= tensor.rank <= MAXIMUM_DIMENSION_COUNT:
        rules.violate(f"{place}.dimension_count", f"must be from 1 to {MAXIMUM_DIMENSION_COUNT}", tensor.rank)
    if tensor.data_type.bits <= 0:
        rules.violate(f"{place}.data_type", "must be a data type", tensor.data_type)
    _check_sizes(rules, place, tensor)
    if tensor.strides is not None:
        _check_strides(rules, place, tensor, tensor.strides, direction)
    _check_memory(rules, place, tensor)
    if tensor.flags:
        must = "must be known flags"
        rules.require(tensor.flags.unknown_bits == 0, f"{place}.flags", must, int(tensor.flags), breaks=False)
        must = "must not have DML_TENSOR_FLAG_OWNED_BY_DML, which is for inputs"
        is_allowed = direction == "input" or TensorFlags.OWNED_BY_DML not in tensor.flags
        rules.require(is_allowed, f"{place}.flags", must, breaks=False)


def _check_sizes(rules: Rules, place: str, tensor: TensorDesc) -> None:
    sizes = tensor.sizes[:MAXIMUM_DIMENSION_COUNT]
    if not _all_within(sizes, 1, MAXIMUM_UINT):
        for i, size in enumerate(sizes):
            must = f"must be from 1 to {MAXIMUM_UINT}"
            rules.require(1 <= size <= MAXIMUM_UINT, f"{place}.sizes[{i}]", must, size)
        sizes = tuple(size for size in sizes if 1 <= size <= MAXIMUM_UINT)
    count = math.prod(sizes)
    if count > MAXIMUM_UINT:
        rules.violate(f"{place}.sizes", f"must have at most {MAXIMUM_UINT} elements", count, breaks=False)


def _all_within(values: Sequence[int], lowest: int, highest: int) -> bool:
    """Whether that holds for all integers: descriptors may have thousands of tensors."""
    return not values or (lowest <= min(values) and max(values) <= highest)


def _check_strides(rules: Rules, place: str, tensor: TensorDesc, strides: tuple[int, ...], direction: str) -> None:
    if len(strides) != tensor.rank and tensor.rank <= MAXIMUM_DIMENSION_COUNT:
        rules.violate(
            f"{place}.strides",
            f"must have DimensionCount = {tensor.rank} elements",
            len(strides),
            breaks=f"{place}.layout",
        )
    if not _all_within(strides, 0, MAXIMUM_UINT):
        for i, stride in enumerate(strides[:MAXIMUM_DIMENSION_COUNT]):
            must = f"must be from 0 to {MAXIMUM_UINT}"
            rules.require(0 <= stride <= MAXIMUM_UINT, f"{place}.strides[{i}]", must, stride)
    if direction == "output" and len(strides) == tensor.rank <= MAXIMUM_DIMENSION_COUNT:
        sizes, steps = _sound_dimensions(tensor.sizes, strides)
        if math.prod(sizes) <= MAXIMUM_UINT and rules.overlaps(sizes, steps):
            must = "must give every element of an output's Sizes an address of its own"
            rules.violate(f"{place}.strides", must, strides, breaks=False)


def _sound_dimensions(sizes: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of the dimensions that are sound, which overlap, or do not, by themselves."""
    if not _all_within(sizes, 1, MAXIMUM_UINT) or not _all_within(strides, 0, MAXIMUM_UINT):
        pairs = [(n, s) for n, s in zip(sizes, strides, strict=True) if n >= 1 and 0 <= s <= MAXIMUM_UINT]
        return tuple(n for n, _ in pairs), tuple(s for _, s in pairs)
    return tuple(sizes), tuple(strides)


def _check_memory(rules: Rules, place: str, tensor: TensorDesc) -> None:
    total, least = tensor.total_size_in_bytes, tensor.minimum_size_in_bytes
    is_laid_out = _is_laid_out(tensor)
    # Where it is not, nothing is implied; a total size that is not given is the size that would be.
    is_right = least <= total <= MAXIMUM_UINT64 if is_laid_out else total == least or 0 <= total <= MAXIMUM_UINT64
    if not is_right:
        implied = f"at least {least}, the size that DataType, Sizes and Strides imply, and " if is_laid_out else ""
        place_of_total = f"{place}.total_tensor_size_in_bytes"
        rules.violate(place_of_total, f"must be {implied}less than 2^64", total, breaks=False)
    alignment, element_size = tensor.guaranteed_base_offset_alignment, max(1, tensor.data_type.bits // 8)
    is_power_of_two = 0 < alignment <= MAXIMUM_UINT and alignment & (alignment - 1) == 0
    if alignment != 0 and not (is_power_of_two and alignment >= element_size):
        must = f"must be 0 or a power of two not less than the size of the DataType, {element_size}"
        rules.violate(f"{place}.guaranteed_base_offset_alignment", must, alignment, breaks=False)


def _is_laid_out(tensor: TensorDesc) -> bool:
    """Whether all that decides how many bytes a tensor takes is sound."""
    strides = tensor.strides or ()
    return (
        1 <= tensor.rank <= MAXIMUM_DIMENSION_COUNT
        and _all_within(tensor.sizes, 1, MAXIMUM_UINT)
        and (tensor.strides is None or len(strides) == tensor.rank)
        and _all_within(strides, 0, MAXIMUM_UINT)
        and tensor.element_count <= MAXIMUM_UINT
    )


def _check_support(
    rules: Rules, name: str, place: str, tensor: TensorDesc, table: Support, support: TensorSupport
) -> None:
    """Rank and data type against the support table, and what it says at the level of the rules, each by itself."""
    lowest, highest, data_types = support
    if not lowest <= tensor.rank <= highest and rules.rank(place) is not None:
        allowed_at = _first_level(table, name, lambda row: row.minimum_rank <= tensor.rank <= row.maximum_rank)
        ranks = f"rank {lowest}" if lowest == highest else f"rank {lowest} to {highest}"
        must = f"must have {ranks} at feature level {rules.table_level}"
        # A rank that some level allows makes sense to the other rules.
        breaks = f"{place}.dimension_count" if allowed_at is None else False
        rules.violate(place, must, f"rank {tensor.rank}", allowed_at=allowed_at, breaks=breaks)
    if tensor.data_type not in data_types and rules.data_type(place) is not None:
        must = f"must be {alternatives(data_types)} at feature level {rules.table_level}"
        allowed_at = _first_level(table, name, lambda row: tensor.data_type in row.data_types)
        rules.violate(place, must, tensor.data_type, allowed_at=allowed_at, breaks=False)


def support_at(table: Support, field: str, level: FeatureLevel) -> TensorSupport | None:
    """What a support table says of a field at a level; None where it says nothing."""
    rows = [row for row in table if row.level <= level]
    return max(rows, key=lambda row: row.level).of(field) if rows else None


def _first_level(table: Support, field: str, allows: Callable[[TensorSupport], bool]) -> FeatureLevel | None:
    return min((row.level for row in table if allows(row.of(field))), default=None)


def _check_activations(rules: Rules) -> None:
    for place, field, activation in attached_operators(rules.desc):
        if _check_activation_type(rules, place, field, activation):
            _check_activation(rules, place, field, activation)


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


def _check_activation(rules: Rules, place: str, field: OperatorField, activation: Operator) -> None:
    """An activation has no tensors of its own; the rest of its rules hold for what it is applied to."""
    for name in ("input_tensor", "output_tensor"):
        value = getattr(activation, name)
        rules.require(value is None, f"{place}.{name}", "must not be given in a fused activation", value)
    outputs = [name for name, field in rules.desc.fields.items() if getattr(field, "direction", "") == "output"]
    hosts = rules.tensors(*outputs) if field.is_of_output else ()
    host_place, host = hosts[0] if hosts else ("", TensorDesc("float32", [1]))
    host = TensorDesc(host.data_type, host.sizes)
    inner = Rules(activation.replace(input_tensor=host, output_tensor=host), rules.table_level)
    for name in ("input_tensor", "output_tensor"):
        # What is known of the host's output is known of the activation's tensors.
        inner.adopt(name, rules, host_place)
    _check_fields(inner)
    _check_counts(inner)
    inner.desc.check(inner)
    host_name = rules.location(host_place)
    for found in inner.violations:
        rule, is_of_host = found.rule.replace("InputTensor", host_name), found.field.startswith("InputTensor")
        where = host_name + found.field.removeprefix("InputTensor") if is_of_host else f"{place}.{found.field}"
        rule += f", for {rules.location(place)}" if is_of_host else ""
        rules.violate(where, rule, found.got, allowed_at=found.allowed_at, breaks=False)

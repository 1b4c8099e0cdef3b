"""MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1: fields and rules. ``attention_products`` says what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from opendml.description.data_types import FLOATS, INT32_ONLY
from opendml.description.descriptors import (
    LevelSupport,
    Operator,
    at,
    enumeration,
    float_value,
    levels,
    tensor_input,
    tensor_output,
    uint,
)
from opendml.description.enums import MultiheadAttentionMaskType, OperatorType
from opendml.description.fields import camel_case
from opendml.operators.attention_products import attention

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opendml.description.field_types import Integer, Member, Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc
    from opendml.expression.statements import Definition

_LAYOUTS: Final = {
    "query_tensor": "B S NH",
    "key_tensor": "B L GH",
    "value_tensor": "B L GV",
    "stacked_query_key_tensor": "B S N 2 H",
    "stacked_key_value_tensor": "B L G 2 H",
    "stacked_query_key_value_tensor": "B S N 3 H",
    "bias_tensor": "NH+GH+GV",
    "relative_position_bias_tensor": "B N S T",
    "past_key_tensor": "B G P H",
    "past_value_tensor": "B G P V",
    "past_sequence_lengths_tensor": "B",
    "output_tensor": "B S NV",
    "output_present_key_tensor": "B G T H",
    "output_present_value_tensor": "B G T V",
}
"""The last sizes of the tensors; those before them are 1. Batch B, queries S, new keys L, past keys P, all keys T,
heads of queries N and of keys and values G, sizes of a head: of queries and keys H, of values V."""

_MASK_LAYOUTS: Final = {
    MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH: "1 B",
    MultiheadAttentionMaskType.KEY_SEQUENCE_END_START: "2 B",
    MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: "3B+2",
    MultiheadAttentionMaskType.BOOLEAN: "B N S T",
}
"""As ``_LAYOUTS``, of the mask."""

_QUERIES: Final = ("query_tensor", "stacked_query_key_tensor", "stacked_query_key_value_tensor")
_KEYS: Final = (
    "key_tensor",
    "stacked_query_key_tensor",
    "stacked_key_value_tensor",
    "stacked_query_key_value_tensor",
)
_VALUES: Final = ("value_tensor", "stacked_key_value_tensor", "stacked_query_key_value_tensor")
"""The tensors that may hold each of the three; one of them does."""


def _from_level(level: str, **exceptions: tuple[int, int]) -> LevelSupport:
    ranks = {
        **dict.fromkeys((name for name in _LAYOUTS if name.startswith("stacked")), (5, 5)),
        **dict.fromkeys(("bias_tensor", "mask_tensor"), (1, 5)),
        **dict.fromkeys((name for name, layout in _LAYOUTS.items() if len(layout.split()) == 4), (4, 5)),
    }
    ranks |= exceptions
    return at(level, (3, 5), FLOATS, ranks, mask_tensor=INT32_ONLY, past_sequence_lengths_tensor=INT32_ONLY)


class _Attention(Operator):
    """What the two versions share."""

    # Both versions have these.
    query_tensor: TensorDesc | None
    key_tensor: TensorDesc | None
    value_tensor: TensorDesc | None
    stacked_query_key_tensor: TensorDesc | None
    stacked_key_value_tensor: TensorDesc | None
    stacked_query_key_value_tensor: TensorDesc | None
    mask_tensor: TensorDesc | None
    past_key_tensor: TensorDesc | None
    past_value_tensor: TensorDesc | None
    output_tensor: TensorDesc
    output_present_key_tensor: TensorDesc | None
    output_present_value_tensor: TensorDesc | None
    scale: float
    mask_filter_value: float
    mask_type: MultiheadAttentionMaskType

    head_count_names = ("head_count", "head_count")
    """The fields that hold the numbers of heads of queries, and of keys and values."""

    @property
    def head_counts(self) -> tuple[int, int]:
        """The numbers of heads of queries, and of keys and values."""
        query, key = self.head_count_names
        return getattr(self, query), getattr(self, key)

    def define(self) -> Definition:
        """GEMM, SOFTMAX and GEMM, some queries at a time."""
        return attention(self)

    def check(self, rules: Rules) -> None:
        """One source each for queries, keys and values; all sizes follow from these, the past and the heads."""
        names = [name for name, field in self.fields.items() if hasattr(field, "direction")]
        rules.same_data_type(*(name for name in names if name not in ("mask_tensor", "past_sequence_lengths_tensor")))
        self._check_sources(rules)
        self._check_past(rules)
        self._check_mask(rules)
        sizes = _Sizes(self, rules)
        self._check_heads(rules, sizes)
        sizes.check()

    def _check_sources(self, rules: Rules) -> None:
        """None twice, and none missing; past keys and values may be all that there is."""
        has_past = self.past_key_tensor is not None and self.past_value_tensor is not None
        missing, taken = [], set[str]()
        for what, names in (("queries", _QUERIES), ("keys", _KEYS), ("values", _VALUES)):
            given = [name for name in names if getattr(self, name) is not None]
            if not given:
                missing.append((what, _list_of(rules, names)))
            for name in given[1:]:
                if name not in taken:
                    taken.add(name)
                    rules.violate(name, f"must not be given beside {rules.location(given[0])}", "it", breaks=False)
        is_cached = has_past and [what for what, _ in missing] == ["keys", "values"]
        for what, names_of in missing:
            if not (is_cached and what != "queries"):
                rules.violate("", f"the {what} must be given: one of {names_of}", breaks=False)

    def _check_past(self, rules: Rules) -> None:
        """Past keys and values come together, and lengths only with them."""
        past = ("past_key_tensor", "past_value_tensor")
        for name, other in (past, past[::-1]):
            if getattr(self, name) is None and getattr(self, other) is not None:
                rules.violate(name, f"must be given beside {rules.location(other)}", None, breaks=False)
        if getattr(self, "past_sequence_lengths_tensor", None) is not None:
            for name in past:
                must = "must be given beside PastSequenceLengthsTensor: outputs hold nothing before they are written"
                rules.require(getattr(self, name) is not None, name, must, None, breaks=False)
            has_keys = any(getattr(self, name) is not None for name in _KEYS)
            must = "must not be given without new keys"
            rules.require(has_keys, "past_sequence_lengths_tensor", must, breaks=False)

    def _check_mask(self, rules: Rules) -> None:
        """A mask has a type, and a type has a mask."""
        if rules.ready("mask_type"):
            mask, is_none = self.mask_tensor, self.mask_type == MultiheadAttentionMaskType.NONE
            must = f"must be given, as MaskType is {self.mask_type.dml_name}"
            if is_none:
                must = must.replace("must be given", "must not be given")
            rules.require((mask is None) == is_none, "mask_tensor", must, "it" if mask else None, breaks=False)

    def _check_heads(self, rules: Rules, sizes: _Sizes) -> None:
        """The heads divide the sizes that hold all of them, and those of queries are shared out evenly."""
        for name in dict.fromkeys(self.head_count_names):
            rules.at_least(name, 1)
        for name, heads in (("query_tensor", 0), ("key_tensor", 1), ("value_tensor", 1)):
            size, field = sizes.own(name, 2), self.head_count_names[heads]
            count = rules.integer(field)
            if size is not None and count is not None and size.value % count:
                rules.violate(field, f"must divide {size.source} = {size.value}", count, breaks=False)
        query, key = (rules.integer(name) for name in self.head_count_names)
        if query is None or key is None:
            return
        first, second = self.head_count_names
        stacked = [name for name in _KEYS if "query" in name and getattr(self, name) is not None]
        if stacked:
            must = f"must be {rules.location(first)} = {query}, as in {rules.location(stacked[0])}"
            rules.require(query == key, second, must, key, breaks=False)
        elif query % key:
            must = f"must be a multiple of {rules.location(second)} = {key}"
            rules.violate(first, must, query, breaks=False)


def _list_of(rules: Rules, names: Iterable[str]) -> str:
    return ", ".join(map(rules.location, names))


class _Size(NamedTuple):
    """A size that is known, and where from, in DirectML's names."""

    value: int
    source: str

    def times(self, other: _Size) -> _Size:
        return _Size(self.value * other.value, f"{self.source} * {other.source}")

    def over(self, other: _Size) -> _Size | None:
        """The quotient, if it is whole."""
        if self.value % other.value:
            return None
        return _Size(self.value // other.value, f"{self.source} / {other.source}")

    def plus(self, other: _Size) -> _Size:
        return _Size(self.value + other.value, f"{self.source} + {other.source}")


class _Sizes:
    """The sizes that the tensors should have, by the letters of ``_LAYOUTS``: each from the first input that has it."""

    def __init__(self, desc: _Attention, rules: Rules) -> None:
        self.desc = desc
        self.rules = rules
        self.layouts = {name: layout.split() for name, layout in self._given_layouts()}
        heads = [self._count(name) for name in desc.head_count_names]
        self.known: dict[str, _Size | None] = {"N": heads[0], "G": heads[1], "1": _Size(1, "")}
        self.known |= {"2": _Size(2, ""), "3": _Size(3, "")}
        for letter in "BSP":
            self.known[letter] = self._first(letter)
        self.known["H"] = self._head_size()
        is_one = any(getattr(desc, name) is not None for name in _KEYS if "query" in name)
        self.known["L"] = self.known["S"] if is_one else self._first("L")
        self.known["V"] = self._value_head_size()
        self.known["T"] = self._total()
        self.known |= {whole: self._whole(whole) for whole in ("NH", "GH", "GV", "NV")}
        self.known["NH+GH+GV"] = self._sum(["NH", "GH", "GV"])
        batch = self.known["B"]
        self.known["3B+2"] = None if batch is None else _Size(3 * batch.value + 2, f"3 * {batch.source} + 2")

    def _given_layouts(self) -> Iterator[tuple[str, str]]:
        desc, rules = self.desc, self.rules
        layouts = dict(_LAYOUTS)
        if rules.ready("mask_type"):
            layouts["mask_tensor"] = _MASK_LAYOUTS.get(desc.mask_type, "")
        for name, layout in layouts.items():
            if layout and name in desc.fields and getattr(desc, name) is not None:
                rank, least = rules.rank(name), len(layout.split())
                if rank is not None and rank >= least:
                    yield name, layout
                elif rank is not None and name == "mask_tensor":
                    must = f"must have rank {least} at least, as MaskType is {desc.mask_type.dml_name}"
                    rules.violate(name, must, f"rank {rank}", breaks="mask_tensor.dimension_count")

    def _count(self, name: str) -> _Size | None:
        count = self.rules.integer(name)
        return _Size(count, camel_case(name)) if count is not None and count >= 1 else None

    def own(self, name: str, position: int) -> _Size | None:
        """A size of a tensor, its position counted in the layout."""
        if name not in self.layouts:
            return None
        dimension = self._dimension(name, position)
        size = self.rules.size(name, dimension)
        return None if size is None else _Size(size, f"{camel_case(name)}.Sizes[{dimension}]")

    def _dimension(self, name: str, position: int) -> int:
        return (self.rules.rank(name) or 0) - len(self.layouts[name]) + position

    def _first(self, letter: str, *names: str) -> _Size | None:
        """The size that the first input has for a letter."""
        for name, layout in self.layouts.items():
            if letter in layout and not name.startswith("output") and (not names or name in names):
                size = self.own(name, layout.index(letter))
                if size is not None:
                    return size
        return None

    def _quotient(self, name: str, heads: str) -> _Size | None:
        whole, count = self.own(name, 2), self.known[heads]
        return None if whole is None or count is None else whole.over(count)

    def _head_size(self) -> _Size | None:
        stacked = [name for name in (*_QUERIES, *_KEYS) if name.startswith("stacked")]
        return (
            self._quotient("query_tensor", "N")
            or self._first("H", *stacked)
            or self._quotient("key_tensor", "G")
            or self._first("H", "past_key_tensor")
        )

    def _value_head_size(self) -> _Size | None:
        stacked = [name for name in _VALUES if name.startswith("stacked")]
        return (
            self._quotient("value_tensor", "G") or self._first("H", *stacked) or self._first("V", "past_value_tensor")
        )

    def _total(self) -> _Size | None:
        """All keys: the past ones and the new ones; where the past has lengths, what the outputs have room for."""
        has_past = self.desc.past_key_tensor is not None or self.desc.past_value_tensor is not None
        has_new = any(getattr(self.desc, name) is not None for name in (*_KEYS, "value_tensor"))
        past, new = self.known["P"], self.known["L"]
        total = None if past is None or new is None else past.plus(new)
        if getattr(self.desc, "past_sequence_lengths_tensor", None) is None:
            return total if has_past and has_new else past if has_past else new
        for name in ("output_present_key_tensor", "output_present_value_tensor"):
            room = self.own(name, 2)
            if room is not None:
                if past is not None and total is not None:
                    must = f"must be from {past.source} = {past.value} to {total.source} = {total.value}"
                    place = f"{name}.sizes[{self._dimension(name, 2)}]"
                    self.rules.require(past.value <= room.value <= total.value, place, must, room.value, breaks=False)
                return room
        return total

    def _whole(self, letters: str) -> _Size | None:
        """The size of all heads, as it stands in a tensor or as a product."""
        if len(set(self.desc.head_count_names)) == 1:
            names = ("value_tensor",) if letters[1] == "V" else ("query_tensor", "key_tensor")
            found = next((size for name in names if (size := self.own(name, 2)) is not None), None)
            if found is not None:
                return found
        count, size = self.known[letters[0]], self.known[letters[1]]
        if count is None or size is None:
            return None
        whole, _, divisor = size.source.partition(" / ")
        return _Size(size.value * count.value, whole) if divisor == count.source else size.times(count)

    def _sum(self, names: Iterable[str]) -> _Size | None:
        total: _Size | None = None
        for name in names:
            size = self.known[name]
            if size is None:
                return None
            total = size if total is None else total.plus(size)
        return total

    def check(self) -> None:
        """Every size is what it should be."""
        for name, layout in self.layouts.items():
            for dimension in range(self._dimension(name, 0)):
                self.rules.size_is(name, dimension, 1, why=f"as in all but the last {len(layout)} dimensions")
            for position, letter in enumerate(layout):
                size, dimension = self.known[letter], self._dimension(name, position)
                if size is not None and size.source != f"{camel_case(name)}.Sizes[{dimension}]":
                    self.rules.size_is(name, dimension, size.value, size.source)


class MultiheadAttention(_Attention, type=OperatorType.MULTIHEAD_ATTENTION, since="6_1"):
    """Multi-head attention: ``softmax(scale * Q @ K' + relative position bias + mask) @ V``, head by head.

    Queries [B, S, N * H], keys [B, L, N * H] and values [B, L, N * V], or two or three of them stacked,
    [B, S, N, 3, H]; past keys and values [B, N, P, H], which come before the new ones. Output [B, S, N * V], and all
    keys and values for the next call, [B, N, P + L, H].
    """

    query_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    key_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    stacked_query_key_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    stacked_key_value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    stacked_query_key_value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    mask_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    relative_position_bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    past_key_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    past_value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    output_present_key_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    output_present_value_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    scale: Number = float_value()
    mask_filter_value: Number = float_value()
    head_count: Integer = uint()
    mask_type: Member[MultiheadAttentionMaskType] = enumeration(MultiheadAttentionMaskType)

    support = levels(_from_level("6_1"))


class MultiheadAttention1(_Attention, type=OperatorType.MULTIHEAD_ATTENTION1, since="6_3"):
    """As MULTIHEAD_ATTENTION, with fewer heads of keys and values than of queries, and a past of another length for
    every batch, in which queries see no later keys than their own."""

    query_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    key_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    stacked_query_key_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    stacked_key_value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    stacked_query_key_value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    mask_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    relative_position_bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    past_key_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    past_value_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    past_sequence_lengths_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    output_present_key_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    output_present_value_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    scale: Number = float_value()
    mask_filter_value: Number = float_value()
    query_head_count: Integer = uint()
    key_value_head_count: Integer = uint()
    mask_type: Member[MultiheadAttentionMaskType] = enumeration(MultiheadAttentionMaskType)

    head_count_names = ("query_head_count", "key_value_head_count")
    support = levels(_from_level("6_3", past_sequence_lengths_tensor=(1, 5)))

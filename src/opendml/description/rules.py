"""What rules of operators are written with: the parts of a descriptor that are sound, and the violations found.

What a rule builds on may be reported already; then the rule is left out, so that one mistake gives one violation. That
is decided for every part by itself: a tensor's data type, its rank and each of its sizes, each element of an array.
So a size of 0 hides nothing but what follows from that size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opendml.description.descriptors import Operator
from opendml.description.enums import DirectMLEnum, FeatureLevel, TensorDataType
from opendml.description.errors import DescriptorArgumentError
from opendml.description.fields import ArrayField, camel_case
from opendml.description.json_values import describe
from opendml.description.overlap import overlaps_at_sight, overlaps_itself
from opendml.description.quoting import cut, printable, quoted
from opendml.description.tensor import MAXIMUM_DIMENSION_COUNT, TensorDesc

SEARCHED_LAYOUTS: Final = 32
"""Different layouts of outputs in one descriptor whose addresses are searched for an overlap (2 ms each); no operator
but SPLIT has as many outputs. Without a bound a descriptor of thousands would take many seconds."""


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


Sizes = tuple[int | None, ...]
"""Sizes of a tensor or elements of an array, None where one is reported already."""


class Rules:
    """Collects the violations of one descriptor and states the rules that many operators share.

    Places are written as in Python, ``output_tensor.sizes[2]``, and reported as in DirectML, ``OutputTensor.Sizes[2]``.
    A place that was reported counts as broken, and all places within it do: ``output_tensor`` breaks its sizes,
    ``output_tensor.sizes[2]`` neither the data type nor the other sizes. The values that the methods give out are those
    of sound places; rules quote in their texts the places that they follow from.
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
        self._partly_broken: set[str] = set()
        self._tensors: dict[str, dict[str, TensorDesc]] = {}
        self._overlaps: dict[tuple[Sequence[int], Sequence[int]], bool] = {}

    # ---- reporting

    def violate(
        self,
        place: str,
        must: str,
        got: object = "",
        *,
        allowed_at: FeatureLevel | None = None,
        breaks: bool | str = True,
    ) -> None:
        """Reports a violation. ``breaks``: what builds on the place (or on the one given) is not to be checked."""
        got_text = printable(cut(got, 400)) if isinstance(got, str) else describe_value(got)
        self.violations.append(Violation(self.desc.type.dml_name, self.location(place), must, got_text, allowed_at))
        if breaks:
            self._break(breaks if isinstance(breaks, str) else place)

    def _break(self, place: str) -> None:
        self.broken.add(place)
        self._partly_broken.add(_whole(place))

    def require(
        self,
        condition: bool,
        place: str,
        must: str,
        got: object = "",
        *,
        allowed_at: FeatureLevel | None = None,
        breaks: bool | str = True,
    ) -> bool:
        """Reports a violation unless the condition holds, and returns it."""
        if not condition:
            self.violate(place, must, got, allowed_at=allowed_at, breaks=breaks)
        return condition

    def location(self, place: str) -> str:
        """DirectML's spelling of a place."""
        name, *members = place.split(".")
        field = self.desc.fields.get(name)
        return ".".join([camel_case(name) if field is None else field.json_name, *map(camel_case, members)])

    def adopt(self, place: str, other: Rules, other_place: str) -> None:
        """Takes over what is broken of another descriptor's tensor; all of it without that."""
        if not other_place:
            self._break(place)
        for broken in other.broken:
            if broken == other_place or broken.startswith((f"{other_place}.", f"{other_place}[")):
                self._break(place + broken[len(other_place) :])

    # ---- what is sound

    def is_sound(self, place: str) -> bool:
        """Whether neither a place nor anything that it is a part of is broken."""
        if not self.broken:
            return True
        while place not in self.broken:
            place = _whole(place)
            if not place:
                return True
        return False

    def ready(self, *fields: str) -> bool:
        """Whether fields are given and sound; of tensors their rank, of arrays that they are some."""
        return all(self._is_ready(name) for name in fields)

    def _is_ready(self, name: str) -> bool:
        value = getattr(self.desc, name)
        if isinstance(value, TensorDesc):
            return self.rank(name) is not None
        return value is not None and self.is_sound(name)

    def tensors(self, *names: str) -> list[tuple[str, TensorDesc]]:
        """The places and descriptions of the tensors given in fields, arrays expanded."""
        return [(place, tensor) for name in names for place, tensor in self._tensors_of(name).items()]

    def _tensors_of(self, name: str) -> dict[str, TensorDesc]:
        """The tensors given in a field, by their places; there may be thousands."""
        found = self._tensors.get(name)
        if found is None:
            value = getattr(self.desc, name)
            places = [(name, value)]
            if isinstance(self.desc.fields[name], ArrayField):
                items = value if isinstance(value, tuple) else ()
                places = [(f"{name}[{position}]", item) for position, item in enumerate(items)]
            found = self._tensors[name] = {place: item for place, item in places if isinstance(item, TensorDesc)}
        return found

    def _tensor_at(self, place: str) -> TensorDesc | None:
        tensor = self._tensors_of(place.partition("[")[0]).get(place)
        return tensor if tensor is not None and self.is_sound(place) else None

    def rank(self, place: str) -> int | None:
        """The number of dimensions of a tensor."""
        tensor = self._tensor_at(place)
        return tensor.rank if tensor is not None and self.is_sound(f"{place}.dimension_count") else None

    def data_type(self, place: str) -> TensorDataType | None:
        """The data type of a tensor."""
        tensor = self._tensor_at(place)
        return tensor.data_type if tensor is not None and self.is_sound(f"{place}.data_type") else None

    def sizes(self, place: str) -> Sizes | None:
        """The sizes of a tensor; None without a sound rank."""
        tensor = self._tensor_at(place)
        if tensor is None or not self.is_sound(f"{place}.dimension_count"):
            return None
        return self._sound(f"{place}.sizes", tensor.sizes)

    def common_rank(self, *names: str) -> int | None:
        """The rank that most of the tensors have, of several the first one's; None if none is known."""
        found = [rank for place, _ in self.tensors(*names) if (rank := self.rank(place)) is not None]
        return Counter(found).most_common(1)[0][0] if found else None

    def sizes_of_rank(self, place: str, rank: int) -> Sizes:
        """The sizes of a tensor that should have that rank: none of them is known where it has another."""
        sizes = self.sizes(place)
        return sizes if sizes is not None and len(sizes) == rank else (None,) * rank

    def size(self, place: str, dimension: int) -> int | None:
        """One size of a tensor, whatever its rank."""
        tensor = self._tensor_at(place)
        if tensor is None or not dimension < tensor.rank or not self.is_sound(f"{place}.sizes[{dimension}]"):
            return None
        return tensor.sizes[dimension]

    def elements(self, name: str) -> Sizes | None:
        """The elements of an array of integers; None if it is none."""
        value = getattr(self.desc, name)
        return self._sound(name, value) if isinstance(value, tuple) and self.is_sound(name) else None

    def _sound(self, place: str, values: tuple[int, ...]) -> Sizes:
        if place not in self._partly_broken and place not in self.broken:
            return values
        return tuple(value if self.is_sound(f"{place}[{i}]") else None for i, value in enumerate(values))

    def integer(self, name: str) -> int | None:
        """The integer in a field."""
        value = getattr(self.desc, name)
        return value if isinstance(value, int) and self.is_sound(name) else None

    def member(self, name: str, member: str) -> int | None:
        """An integer in a struct in a field."""
        value = getattr(getattr(self.desc, name), member, None)
        return value if isinstance(value, int) and self.is_sound(f"{name}.{member}") else None

    def along(self, *places: str, first: int = 0) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The sizes of tensors and the elements of arrays, dimension by dimension, where all of them are sound.

        Counted from dimension ``first`` on, where arrays have their first element. Nothing if ranks or lengths differ.
        """
        columns = [self._column(place, first) for place in places]
        known = [column for column in columns if column is not None]
        if len(known) < len(columns) or len({len(column) for column in known}) != 1:
            return
        for i, values in enumerate(zip(*known, strict=True)):
            sound = tuple(value for value in values if value is not None)
            if len(sound) == len(values):
                yield i, sound

    def _column(self, place: str, first: int) -> Sizes | None:
        if isinstance(self.desc.fields[place.partition("[")[0]], ArrayField) and "[" not in place:
            return self.elements(place)
        sizes = self.sizes(place)
        return None if sizes is None else sizes[first:]

    # ---- rules that operators share

    def same_data_type(self, *names: str) -> None:
        """All tensors have the data type of the first."""
        self._same(names, "DataType", self.data_type)

    def same_rank(self, *names: str) -> None:
        """All tensors have as many dimensions as the first."""
        self._same(names, "DimensionCount", self.rank)

    def _same(self, names: Sequence[str], what: str, value_of: Callable[[str], Any]) -> None:
        found = [(place, value_of(place)) for place, _ in self.tensors(*names)]
        sound = [(place, value) for place, value in found if value is not None]
        for place, value in sound[1:]:
            first_place, expected = sound[0]
            if value != expected:
                must = f"must have the {what} of {self.location(first_place)}, {describe_value(expected)}"
                self.violate(place, must, value, breaks=False)

    def same_sizes(self, *names: str) -> None:
        """All tensors, of those with the rank that most have, have the sizes of the first."""
        found = [(place, self.sizes(place)) for place, _ in self.tensors(*names)]
        ranked = [(place, sizes) for place, sizes in found if sizes is not None]
        ranks = Counter(len(sizes) for _, sizes in ranked)
        rank = max(ranks, key=lambda rank: ranks[rank], default=0)
        ranked = [(place, sizes) for place, sizes in ranked if len(sizes) == rank]
        for dimension in range(rank):
            sound = [(place, sizes[dimension]) for place, sizes in ranked if sizes[dimension] is not None]
            for place, size in sound[1:]:
                if size != sound[0][1]:
                    must = f"must be {self.location(sound[0][0])}.Sizes[{dimension}] = {sound[0][1]}"
                    self.violate(f"{place}.sizes[{dimension}]", must, size, breaks=False)

    def sizes_are(self, place: str, sizes: Sequence[int | None], source: str = "", why: str = "") -> None:
        """A tensor has these sizes, where they are known and it has as many. ``source``: what they are, in DirectML's
        names, ``[i]`` being the dimension; ``why``: what else is to be said."""
        actual = self.sizes(place)
        if actual is not None and len(actual) == len(sizes) and actual != tuple(sizes):
            for i, (size, expected) in enumerate(zip(actual, sizes, strict=True)):
                if size != expected and size is not None and expected is not None:
                    self.size_is(place, i, expected, source, why)

    def size_is(self, place: str, dimension: int, expected: int | None, source: str = "", why: str = "") -> None:
        """As ``sizes_are`` of one size, whatever the tensor's rank."""
        size = self.size(place, dimension)
        if size is not None and expected is not None and size != expected:
            name = source.replace("[i]", f"[{dimension}]")
            must = (f"must be {name} = {expected}" if name else f"must be {expected}") + (f", {why}" if why else "")
            self.violate(f"{place}.sizes[{dimension}]", must, size, breaks=False)

    def same_sizes_but_for_axis(self, name: str, like: str, size: int | None = None) -> None:
        """A tensor has the sizes of another one, but for the field ``axis``: there any, or the one given."""
        axis, expected = self.integer("axis"), self.sizes(like)
        if axis is not None and expected is not None:
            expected = (*expected[:axis], None, *expected[axis + 1 :])
            source = f"{self.location(like)}.Sizes[i]"
            self.sizes_are(name, expected, source, "as in all dimensions but Axis")
        if axis is not None:
            self.size_is(name, axis, size, why="as the dimension is Axis")

    def at_least(self, name: str, least: int) -> None:
        """An integer field is not less than that."""
        value = self.integer(name)
        if value is not None:
            self.require(value >= least, name, f"must be at least {least}", value)

    def each_at_least(self, name: str, least: int) -> None:
        """No element of an array is less than that."""
        for i, value in enumerate(self.elements(name) or ()):
            if value is not None:
                self.require(value >= least, f"{name}[{i}]", f"must be at least {least}", value)

    def axis_in_range(self, axis: str, tensor: str) -> None:
        """A field is the number of one of a tensor's dimensions."""
        value, rank = self.integer(axis), self.rank(tensor)
        if value is not None and rank is not None:
            self._axis_in_range(axis, value, tensor, rank)

    def axes_in_range(self, axes: str, tensor: str, *, least: int = 0) -> None:
        """An array names dimensions of a tensor, none twice, and at least that many."""
        values, rank = self.elements(axes), self.rank(tensor)
        if values is None:
            return
        self.require(len(values) >= least, axes, "must name at least one dimension", "none")
        before = set[int]()
        for i, axis in enumerate(values):
            if axis is not None:
                if rank is not None:
                    self._axis_in_range(f"{axes}[{i}]", axis, tensor, rank)
                self.require(axis not in before, f"{axes}[{i}]", "must not name a dimension again", axis)
                before.add(axis)

    def _axis_in_range(self, place: str, axis: int, tensor: str, rank: int) -> None:
        if axis >= rank:
            # An axis that another tensor has is gone on with: this one's rank may be what is wrong.
            names = [name for name, field in self.desc.fields.items() if getattr(field, "direction", "")]
            is_others = any(axis < (self.rank(other) or 0) for other, _ in self.tensors(*names))
            must = f"must be less than {self.location(tensor)}.DimensionCount = {rank}"
            self.violate(place, must, axis, breaks=not is_others)

    def is_data_type_of(self, name: str, tensor: str) -> None:
        """A field holds the data type of a tensor."""
        expected = self.data_type(tensor)
        if self.ready(name) and expected is not None:
            value = getattr(self.desc, name)
            what = f"must be the DataType of {self.location(tensor)}, {expected.name}"
            self.require(value == expected, name, what, value)

    def overlaps(self, sizes: Sequence[int], strides: Sequence[int]) -> bool:
        """``overlaps_itself``; of the layouts that take a search some are searched, the others count as sound."""
        quick = overlaps_at_sight(sizes, strides)
        if quick is not None:
            return quick
        layout = (sizes, strides)
        if layout not in self._overlaps:
            self._overlaps[layout] = len(self._overlaps) < SEARCHED_LAYOUTS and overlaps_itself(sizes, strides)
        return self._overlaps[layout]


# ---- places and texts


def _whole(place: str) -> str:
    """What a place is a part of: ``a.sizes`` for ``a.sizes[2]``; empty for a field."""
    return place[: max(place.rfind("."), place.rfind("["), 0)]


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

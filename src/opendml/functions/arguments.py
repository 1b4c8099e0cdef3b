"""What is wrong with a call, in the words of the call: parameters instead of fields, and what to write instead.

A function infers most of a descriptor. What its user has written is a cause; a violation of an inferred field (counts,
outputs, arrays that were left at their defaults) is a consequence, and is left out where a cause is named.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from opendml.building.graph_tensor import GraphTensor
from opendml.building.operator_messages import right_data_type
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, TensorDataType
from opendml.description.errors import InvalidDescriptorError
from opendml.description.fields import CountField, Field
from opendml.description.rules import Violation
from opendml.description.tensor import TensorDesc
from opendml.description.validation import support_at

PARAMETERS: Final = {
    "cross_channel": ("axes",),
    "has_exclusive_product": ("exclusive",),
    "has_exclusive_sum": ("exclusive",),
    "offset": ("diagonal_fill_begin",),
    "offsets": ("input_window_offsets",),
    "output_indices_tensor": ("output_indices",),
    "output_tensors": ("output_axis_sizes",),
    "query_head_count": ("head_count",),
    "sizes": ("input_window_sizes",),
    "strides": ("input_window_strides",),
    "use_mean": ("normalize_mean",),
    "use_variance": ("normalize_variance",),
    "value_data_type": ("output_data_type",),
}
"""The parameters of fields whose names do not say them; all others have the field's name, without ``_tensor``."""

ELEMENTS: Final = {"quantization_tensors": ("scale", "zero_point")}
"""The parameters of arrays of tensors that are given one by one."""

OUTPUT_PARAMETERS: Final = {
    "Sizes": ("output_sizes",),
    "DataType": ("output_data_type", "indices_data_type"),
    "Strides": ("out",),
}
"""The parameters that decide about a member of an output."""

TYPES_OF_INPUT: Final = ("min_max_data_type", "padding_value_data_type")
"""Fields that hold the data type of the input."""

_MEMBERS: Final = {
    False: {"Sizes": "shape", "Strides": "strides", "DataType": "dtype", "DimensionCount": "ndim"},
    True: {"Sizes": "sizes", "Strides": "strides", "DataType": "data_type", "DimensionCount": "rank"},
}
"""Members of a tensor as attributes of an array, and of a graph tensor."""

_WORDS: Final = {"DataType": "data type", "DimensionCount": "number of dimensions", "Sizes": "sizes"}
_COUNTED: Final = re.compile(r"\b([A-Z]\w*) = (\d+) elements")
_PLACE: Final = re.compile(r"\b([A-Z]\w*)((?:\[\d+\])?)((?:\.[A-Z]\w*+(?:\[\d++\])?)*+)")


def in_words_of_call(
    error: InvalidDescriptorError, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> InvalidDescriptorError:
    """The error of a function's descriptor as one of the call; as it is where it is none of a descriptor."""
    if error.desc is None or error.feature_level is None:
        return InvalidDescriptorError(_of_output(str(error), function))
    call = _Call(error.desc, error.feature_level, function, arguments, named)
    found = [(call.place(violation.field), violation) for violation in error.violations]
    causes = [(place, violation) for place, violation in found if place.is_written]
    violations = [call.reworded(place, violation) for place, violation in causes or found]
    first, name = str(error).split("\n", 1)[0], error.desc.type.dml_name
    return InvalidDescriptorError(
        first.replace(f"{name} is invalid", f"dml.{function.__name__}: {name} is invalid", 1), violations
    )


def _of_output(message: str, function: Callable[..., Any]) -> str:
    """An error of a tensor that could not be described: those of outputs name no operand."""
    line = re.match(r'(?:File ".*", line \d+: )?', message)[0]  # type: ignore[index]
    place, colon, text = message[len(line) :].partition(": ")
    member, index = re.sub(r"\[\d+\]$", "", place), "".join(re.findall(r"\[\d+\]$", place))
    parameters = inspect.signature(function).parameters
    name = next((name for name in OUTPUT_PARAMETERS.get(member, ()) if name in parameters), None)
    return f"{line}dml.{function.__name__}: {name}{index}{colon}{text}" if name else message


class _Place(NamedTuple):
    """A place in a descriptor as Python has it, and whether it is something that the user has written."""

    text: str
    is_written: bool


class _Call:
    """A call of a function and the descriptor that was made of it."""

    def __init__(
        self,
        desc: Operator,
        level: FeatureLevel,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: Mapping[str, Any],
    ) -> None:
        self.desc = desc
        self.level = max(level, desc.since)
        signature = inspect.signature(function)
        self.parameters = signature.parameters
        given = signature.bind_partial(*arguments, **named).arguments
        self.given = {name: value for name, value in given.items() if value is not self.parameters[name].default}
        self.fields = {field.json_name: field for field in desc.fields.values()}

    # ---- places

    def place(self, field: str) -> _Place:
        """The place of a violation."""
        parts = _PLACE.fullmatch(field)
        known = self.fields.get(parts[1]) if parts else None
        if parts is None or known is None:
            return _Place(field, not field)
        if getattr(known, "direction", "") == "output":
            return self._output_place(known, field, parts[2], parts[3])
        if isinstance(known, CountField):
            array = self._parameter(self.desc.fields[known.array])
            return _Place(f"len({array})" if array else field, array in self.given)
        if known.name in TYPES_OF_INPUT:
            return _Place("input.dtype", False)
        parameter, number = self._parameter(known), re.fullmatch(r"\[(\d+)\]", parts[2])
        if known.name in ELEMENTS and number is not None:
            one = ELEMENTS[known.name][int(number[1])]
            return _Place(one + self._members(one, parts[3]), one in self.given)
        if parameter is None:
            return _Place(field, False)
        return _Place(parameter + parts[2] + self._members(parameter, parts[3]), parameter in self.given)

    def _parameter(self, field: Field) -> str | None:
        """The parameter that a field is given by."""
        own = field.name.removesuffix("_tensor").removesuffix("_tensors")
        usual = (field.name, own, f"{own}s" if field.name.endswith("_tensors") else own, *ELEMENTS.get(field.name, ()))
        return next((name for name in (*usual, *PARAMETERS.get(field.name, ())) if name in self.parameters), None)

    def _output_place(self, field: Field, text: str, index: str, members: str) -> _Place:
        """Outputs are inferred but for their sizes, types and memory, where there are parameters for these."""
        member = re.sub(r"\[\d+\]", "", members[1:]) or "DataType"
        if "output_axis_sizes" in self.given and member in ("Sizes", "DataType"):
            return _Place(f"output_axis_sizes{index}", True)
        names = (*OUTPUT_PARAMETERS.get(member, ()), *PARAMETERS.get(field.name, ()))
        known = [name for name in names if name in self.parameters]
        name = next((name for name in (*known, "out") if name in self.given), known[0] if known else "")
        if not name or name == "out":
            return _Place(name or text, bool(name))
        return _Place(name + "".join(re.findall(r"\[\d+\]$", members)), name in self.given)

    def _members(self, parameter: str, members: str) -> str:
        """``.Sizes[2]`` -> ``.shape[2]``; of anything but a tensor as Python spells names."""
        attributes = _MEMBERS[isinstance(self.given.get(parameter), GraphTensor)]

        def spelt(part: re.Match[str]) -> str:
            return attributes.get(part[0]) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part[0]).lower()

        return re.sub(r"[A-Za-z]\w*", spelt, members)

    # ---- words

    def reworded(self, place: _Place, violation: Violation) -> Violation:
        """A violation with parameters in place of fields, and with a cure."""

        def spelt(part: re.Match[str]) -> str:
            known = self.fields.get(part[1])
            if known is None:
                return _WORDS.get(part[1], part[1]) + part[0][len(part[1]) :]
            if getattr(known, "direction", "") == "output":
                return "output" + part[2] + self._members("", part[3])
            return self.place(part[0]).text

        # Of another tensor, or what decides about a count: nobody has written a count itself.
        rule = violation.rule.replace("the DimensionCount of ", "the number of dimensions of ")
        rule = _COUNTED.sub(lambda found: self._elements(place, found), rule)
        rule = _PLACE.sub(spelt, rule)
        return replace(violation, field=place.text, rule=rule, cure=self._cure(violation, place.text))

    def _elements(self, place: _Place, found: re.Match[str]) -> str:
        """``DimensionCount = 2 elements`` by what the count follows from."""
        count, tensors = self.fields.get(found[1]), dict(self.desc.inputs())
        if not isinstance(count, CountField):
            return found[0]
        for name in count.rank_of:
            field = self.desc.fields[name].json_name
            tensor = tensors.get(field)
            if tensor is not None and tensor.rank - count.less == int(found[2]):
                less = f" - {count.less}" if count.less else ""
                return f"{field}.DimensionCount{less} = {found[2]} elements"
        own = self._parameter(self.desc.fields[count.array]) == place.text
        return f"{found[2]} elements" if own else found[0]

    def _cure(self, violation: Violation, argument: str) -> str:
        """What to write instead of a tensor whose type or rank is wrong; nothing where there is no telling."""
        tensor = self._tensor(violation.field)
        field = self.fields.get(violation.field.partition("[")[0])
        if tensor is None or field is None or not tensor.data_type.bits:
            return ""
        right = right_data_type(self.desc, violation, self.level)
        if right is not None:
            return self._converted(argument, right)
        support = support_at(self.desc.support_table(), field.name, self.level)
        if support is not None and tensor.rank < support.minimum_rank and violation.got.startswith("rank"):
            shape = [1] * (support.minimum_rank - tensor.rank) + list(tensor.sizes)
            return f"{argument}.reshape({shape})"
        return ""

    def _converted(self, argument: str, data_type: TensorDataType) -> str:
        name = data_type.name.lower()
        is_graph_tensor = isinstance(self.given.get(argument.partition("[")[0]), GraphTensor)
        return f'dml.cast({argument}, "{name}")' if is_graph_tensor else f"{argument}.astype(np.{name})"

    def _tensor(self, place: str) -> TensorDesc | None:
        """The input at a place, None for anything else."""
        return dict(self.desc.inputs()).get(place)

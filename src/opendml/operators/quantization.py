"""Quantization to and from 8 and 4 bits by tensors of scales and zero points, or by the range of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import BYTES, FLOAT32_ONLY, FLOATS, data_types
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    enumeration,
    levels,
    tensor_input,
    tensor_inputs,
    tensor_output,
)
from opendml.description.enums import OperatorType, QuantizationType, TensorDataType
from opendml.expression.affine import EXACT
from opendml.expression.element_types import BOOL, F32, I8, U8, ElementType
from opendml.expression.folds import maximum, minimum
from opendml.expression.ir import Axis, Expression, Tensor, cast, constant, grid, index, load, select, temporary, unary
from opendml.expression.reductions import one_value, reduction
from opendml.expression.statements import Compute, Definition, Scatter, Statement, Store
from opendml.operators.definition import every_element, tensor, widen
from opendml.operators.element_wise_quantization import dequantized, quantized
from opendml.operators.quantization_parameters import check_single

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Member, TensorList, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

BYTES_AND_HALVES: Final = data_types("INT8 INT4 UINT8 UINT4")
SCALES_AND_ZERO_POINTS: Final = data_types("FLOAT32 FLOAT16 INT8 INT4 UINT8 UINT4")


class Quantization(Operator):
    """What QUANTIZE and DEQUANTIZE share: a scale, and a zero point or none, for each block of elements.

    All tensors have the same rank. Along each dimension the input has as many blocks as the scale has elements, all of
    the same size; the zero point has the scale's sizes.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    quantization_type: Member[QuantizationType] = enumeration(QuantizationType)
    quantization_tensor_count: Count = count_of("quantization_tensors", default=None)
    quantization_tensors: TensorList = tensor_inputs(count="quantization_tensor_count")
    output_tensor: Value[TensorDesc] = tensor_output()

    def check(self, rules: Rules) -> None:
        """One tensor or two, by the type; blocks divide the input."""
        rules.same_rank("input_tensor", "quantization_tensors", "output_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        if rules.ready("quantization_type"):
            self._check_count(rules)
        scale, *others = [place for place, _ in rules.tensors("quantization_tensors")] or [""]
        if not scale:
            return
        data_type, must = rules.data_type(scale), "must be FLOAT32 or FLOAT16, as it is the scale"
        rules.require(data_type is None or data_type.is_float, scale, must, data_type, breaks=f"{scale}.data_type")
        self._check_blocks(rules, scale)
        for place in others[:1]:
            for i, size in enumerate(rules.sizes(scale) or ()):
                rules.size_is(place, i, size, f"{rules.location(scale)}.Sizes[i]")

    def _check_count(self, rules: Rules) -> None:
        must = f"must be {QuantizationType.SCALE.dml_name} or {QuantizationType.SCALE_ZERO_POINT.dml_name}"
        is_some = self.quantization_type != QuantizationType.NONE
        tensors = self.quantization_tensors
        if not rules.require(is_some, "quantization_type", must, self.quantization_type):
            return
        if isinstance(tensors, tuple) and rules.is_sound("quantization_tensors"):
            must = f"must have {self.quantization_type.value} elements, by QuantizationType"
            is_right = len(tensors) == self.quantization_type.value
            rules.require(is_right, "quantization_tensors", must, len(tensors), breaks=False)

    def _check_blocks(self, rules: Rules, scale: str) -> None:
        """Every size of the scale divides that of the input."""
        for i, (size, count) in rules.along("input_tensor", scale):
            must = f"must divide InputTensor.Sizes[{i}] = {size}"
            rules.require(size % count == 0, f"{scale}.sizes[{i}]", must, count, breaks=False)

    def _check_types(self, rules: Rules, real: str, whole: str) -> None:
        """The scale has the type of the real numbers, the zero point that of the quantized ones."""
        for i, name in enumerate((real, whole)):
            tensors = rules.tensors("quantization_tensors")[i : i + 1]
            for place, _ in tensors:
                expected, data_type = rules.data_type(name), rules.data_type(place)
                if expected is not None and data_type is not None and data_type is not expected:
                    must = f"must have the DataType of {rules.location(name)}, {expected.name}"
                    rules.violate(place, must, data_type, breaks=False)


class Quantize(Quantization, type=OperatorType.QUANTIZE, since="6_3"):
    """Quantizes to 8-bit or 4-bit integers by a scale, and a zero point or none, for each block of elements.

    ``x / scale``, rounded, plus the zero point, clamped to the range of the output.
    """

    support = levels(
        at("6_3", (1, 8), BYTES_AND_HALVES, input_tensor=FLOATS, quantization_tensors=SCALES_AND_ZERO_POINTS)
    )

    def check(self, rules: Rules) -> None:
        """The scale has the type of the input, the zero point that of the output."""
        super().check(rules)
        self._check_types(rules, "input_tensor", "output_tensor")

    def define(self) -> Definition:
        """As QUANTIZE_LINEAR, in float32."""
        blocks = _Blocks(self)
        data_type = self.output_tensor.data_type

        def element(x: Expression, scale: Expression, zero_point: Expression | None) -> Expression:
            return _clamped(widen(x) / widen(scale), zero_point, data_type)

        return blocks.definition(element)


class Dequantize(Quantization, type=OperatorType.DEQUANTIZE, since="6_3"):
    """Converts 8-bit or 4-bit integers to floating point by a scale, and a zero point or none, for each block.

    ``(x - zero point) * scale``.
    """

    support = levels(
        at("6_3", (1, 8), BYTES_AND_HALVES, quantization_tensors=SCALES_AND_ZERO_POINTS, output_tensor=FLOATS)
    )

    def check(self, rules: Rules) -> None:
        """The scale has the type of the output, the zero point that of the input."""
        super().check(rules)
        self._check_types(rules, "output_tensor", "input_tensor")

    def define(self) -> Definition:
        """As DEQUANTIZE_LINEAR, in float32."""
        return _Blocks(self).definition(lambda x, scale, zero_point: dequantized(x, widen(scale), zero_point))


class DynamicQuantizeLinear(Operator, type=OperatorType.DYNAMIC_QUANTIZE_LINEAR, since="4_0"):
    """Quantizes to 8 bits by a scale and zero point that are computed from the range of the input, 0 included.

    Scale and zero point, of one element each, are outputs too.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    output_scale_tensor: Value[TensorDesc] = tensor_output()
    output_zero_point_tensor: Value[TensorDesc] = tensor_output()

    support = levels(at("4_0", (1, 8), BYTES, input_tensor=FLOATS, output_scale_tensor=FLOAT32_ONLY))

    def check(self, rules: Rules) -> None:
        """The output has the input's sizes, and its type is that of its zero point."""
        rules.same_data_type("output_tensor", "output_zero_point_tensor")
        rules.same_rank("input_tensor", "output_tensor", "output_scale_tensor", "output_zero_point_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        check_single(rules, "output_scale_tensor", "output_zero_point_tensor")

    def define(self) -> Definition:
        """All in float32: extremes, then scale and zero point, then every element as QUANTIZE_LINEAR has it."""
        output = tensor("OutputTensor", self.output_tensor, "output")
        scale_output = tensor("OutputScaleTensor", self.output_scale_tensor, "output")
        zero_point_output = tensor("OutputZeroPointTensor", self.output_zero_point_tensor, "output")
        work = reduction(tensor("InputTensor", self.input_tensor, "input"), range(self.input_tensor.rank))
        largest, smallest, scale, zero_point = (
            work.intermediate(name, type)
            for name, type in (("largest", F32), ("smallest", F32), ("scale", F32), ("zero_point", output.type))
        )
        for extreme, operation in ((largest, maximum), (smallest, minimum)):
            work.reduce(one_value(operation, constant(0, F32), lambda value, _: widen(value)), extreme)
        one = [0] * len(scale.sizes)
        high, low = load(largest, one), load(smallest, one)
        lowest, steps = constant(_lowest(output.type), F32), constant(255, F32)
        work.statements += [
            every_element(scale, lambda _: select(high.equals(low), constant(1, F32), high - low) / steps),
            every_element(zero_point, lambda _: quantized(lowest - low / load(scale, one), None, output.type)),
            every_element(scale_output, lambda _: load(scale, one)),
            every_element(zero_point_output, lambda _: load(zero_point, one)),
        ]

        def element(place: tuple[Expression, ...]) -> Expression:
            x = widen(load(work.source, place))
            return quantized(x / load(scale, one), load(zero_point, one), output.type)

        work.statements.append(every_element(output, lambda place: cast(element(place), output.type)))
        outputs = (output, scale_output, zero_point_output)
        return Definition((work.source,), outputs, tuple(work.statements), tuple(work.temporaries))


def _lowest(type: ElementType) -> int:
    """The least value of an 8-bit type."""
    return -128 if type.kind == "int" else 0


_Function = Callable[[Expression, Expression, Expression | None], Expression]


class _Blocks:
    """The tensors of a quantization by blocks, and its loops: along each dimension blocks, and elements of a block."""

    def __init__(self, desc: Quantize | Dequantize) -> None:
        self.desc = desc
        self.statements: list[Statement] = []
        self.temporaries: list[Tensor] = []
        names = [name for name, _ in desc.inputs()]
        descs = [desc.input_tensor, *desc.quantization_tensors]
        self.inputs = [tensor(name, d, "input") for name, d in zip(names, descs, strict=True)]
        self.elements = [_Elements(self, t, d) for t, d in zip(self.inputs, descs, strict=True)]
        self.output = tensor("OutputTensor", desc.output_tensor, "output")

    def definition(self, element: _Function) -> Definition:
        """The output is ``element(x, scale, zero point or None)``, cast to its type."""
        sizes, counts = self.desc.output_tensor.sizes, self.desc.quantization_tensors[0].sizes
        axes: list[Axis] = []
        places: list[tuple[Expression, Expression]] = []
        for d, (size, count) in enumerate(zip(sizes, counts, strict=True)):
            block, inner = Axis(f"b{d}", count), Axis(f"i{d}", size // count)
            axes += [block, inner]
            places.append((index(block) * (size // count) + index(inner), index(block)))
        place, block_place = ([pair[i] for pair in places] for i in range(2))
        source, scale, *zero_points = self.elements
        zero_point = zero_points[0](block_place) if zero_points else None
        value = element(source(place), scale(block_place), zero_point)
        self._store(axes, place, value)
        return Definition(tuple(self.inputs), (self.output,), tuple(self.statements), tuple(self.temporaries))

    def _store(self, axes: Sequence[Axis], place: Sequence[Expression], value: Expression) -> None:
        desc = self.desc.output_tensor
        if desc.data_type.bits != 4:
            self.statements.append(
                Compute(tuple(axes), (Store(self.output, tuple(place), cast(value, self.output.type)),))
            )
            return
        # One element a byte, then two; what lies between elements is 0.
        halves = self.temporary("halves", U8, self.output.sizes[0] * 2)
        if desc.element_count < halves.sizes[0]:
            self.statements.append(every_element(halves, lambda _: constant(0, U8)))
        stored = Store(halves, (_offset(desc, place),), cast(value, U8) & 15)
        # Places as far apart as no memory reaches are no sums of axes any more.
        is_exact = halves.sizes[0] <= EXACT
        self.statements.append(
            Compute(tuple(axes), (stored,)) if is_exact else Scatter(tuple(axes), constant(True, BOOL), stored)
        )
        self.statements.append(
            every_element(self.output, lambda p: load(halves, (p[0] * 2,)) | (load(halves, (p[0] * 2 + 1,)) << 4))
        )

    def temporary(self, name: str, type: ElementType, size: int) -> Tensor:
        """A temporary of one dimension, added."""
        self.temporaries.append(temporary(name, type, [size]))
        return self.temporaries[-1]


class _Elements:
    """How the elements of a tensor are read by their coordinates; of the 4-bit types from a copy, one a byte."""

    def __init__(self, blocks: _Blocks, source: Tensor, desc: TensorDesc) -> None:
        self.source, self.desc = source, desc
        if desc.data_type.bits != 4:
            return
        is_signed = desc.data_type.is_signed_integer
        self.source = whole = blocks.temporary(f"{source.name}_elements", I8 if is_signed else U8, source.sizes[0] * 2)
        (pair,) = axes = grid(source.sizes)
        byte = load(source, (index(pair),))
        halves = (byte << 4, byte) if is_signed else (byte & 15, byte >> 4)
        stores = [
            Store(whole, (index(pair) * 2 + i,), cast(half, I8) >> 4 if is_signed else half)
            for i, half in enumerate(halves)
        ]
        blocks.statements.append(Compute(axes, tuple(stores)))

    def __call__(self, place: Sequence[Expression]) -> Expression:
        if self.desc.data_type.bits != 4:
            return load(self.source, place)
        return load(self.source, (_offset(self.desc, place),))


def _offset(desc: TensorDesc, place: Sequence[Expression]) -> Expression:
    """Where an element is in memory."""
    total: Expression = constant(0, place[0].type)
    for coordinate, stride in zip(place, desc.effective_strides, strict=True):
        total = total + coordinate * stride
    return total


def _clamped(x: Expression, zero_point: Expression | None, data_type: TensorDataType) -> Expression:
    """``quantized`` to 8 bits, of which 4-bit types take a part."""
    if data_type.bits == 8:
        return quantized(x, zero_point, I8 if data_type.is_signed_integer else U8)
    lowest, highest = data_type.integer_range
    rounded = unary("round_even", x)
    total = rounded if zero_point is None else rounded + cast(zero_point, F32)
    total = select(total < lowest, lowest, select(total > highest, highest, total))
    return cast(total, I8 if data_type.is_signed_integer else U8)

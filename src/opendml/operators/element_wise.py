"""Element-wise operators: each output element depends on the input elements at the same coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from opendml.description.data_types import (
    ALL,
    ALL_BUT_FLOAT64,
    FLOATS,
    FLOATS_AND_8_TO_16_BIT,
    FLOATS_AND_32_BIT,
    FLOATS_AND_32_TO_64_BIT,
    UP_TO_32_BIT,
)
from opendml.description.descriptors import (
    Operator,
    at,
    enumeration,
    float_value,
    levels,
    operator_desc,
    scalar_union,
    scale_bias,
    tensor_input,
    tensor_output,
)
from opendml.description.enums import OperatorType, TensorDataType
from opendml.expression.element_types import F16, F32, F64, ElementType
from opendml.expression.ir import Expression, Tensor, cast, load
from opendml.expression.mathematics import narrow_to_f16
from opendml.expression.statements import Definition
from opendml.operators.activation import FUSABLE
from opendml.operators.activation_functions import activate, clip
from opendml.operators.definition import converted, every_element, optional_tensor, scalar, tensor, widen
from opendml.operators.element_types import ELEMENT_TYPE_OF

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Number, OptionalScaleBias, Scalar, Value
    from opendml.description.rules import Rules
    from opendml.description.structs import ScaleBias
    from opendml.description.tensor import TensorDesc

Function = Callable[[Expression], Expression]


class ElementWise(Operator):
    """What the element-wise operators share: every tensor has the same sizes.

    ``alike`` are the groups of tensors that have the same data type; where there are none, all tensors have.
    """

    in_place = True
    alike: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def check(self, rules: Rules) -> None:
        """All tensors alike; broadcasting is expressed with strides of 0."""
        tensors = tuple(name for name, field in self.fields.items() if hasattr(field, "direction"))
        for group in self.alike or (tensors,):
            rules.same_data_type(*group)
        rules.same_rank(*tensors)
        rules.same_sizes(*tensors)


class UnaryElementWise(ElementWise):
    """A function of one tensor: ``element`` says which, of an element in its computation type."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    def element(self, x: Expression) -> Expression:
        """The function of one element."""
        raise TypeError(type(self).__name__)

    def define(self) -> Definition:
        """The function of every element, rounded once."""
        return each_element(self, lambda x: self.element(widen(x)))


class ScaledElementWise(UnaryElementWise):
    """A function of one tensor whose elements may be scaled and biased before."""

    scale_bias: OptionalScaleBias = scale_bias(default=None)

    def define(self) -> Definition:
        """The function of ``x * Scale + Bias``, which is not rounded to float16 before."""
        return each_element(self, lambda x: self.element(scaled(widen(x), self.scale_bias)))


class BinaryElementWise(ElementWise):
    """A function of two tensors: ``element`` says which, of two elements in their computation type."""

    a_tensor: Value[TensorDesc] = tensor_input()
    b_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    def element(self, a: Expression, b: Expression) -> Expression:
        """The function of two elements."""
        raise TypeError(type(self).__name__)

    def define(self) -> Definition:
        """The function of every pair of elements, rounded once."""
        return each_element(self, lambda a, b: self.element(widen(a), widen(b)))


class ElementWiseIdentity(ElementWise, type=OperatorType.ELEMENT_WISE_IDENTITY, since="1_0"):
    """Copies each element (optionally scaled and biased); used to copy a tensor or to change its memory layout."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    scale_bias: OptionalScaleBias = scale_bias(default=None)

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 5), UP_TO_32_BIT),
        at("1_0", (4, 5), FLOATS),
    )

    def define(self) -> Definition:
        """A copy, bit for bit, or ``x * Scale + Bias``."""
        factors = self.scale_bias
        scale: Function = (lambda x: x) if factors is None else (lambda x: scaled(widen(x), factors))
        return _map(self.input_tensor, self.output_tensor, scale)


class ElementWiseAdd(ElementWise, type=OperatorType.ELEMENT_WISE_ADD, since="1_0"):
    """Adds two tensors element by element."""

    a_tensor: Value[TensorDesc] = tensor_input()
    b_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    support = levels(
        at("5_1", (1, 8), ALL_BUT_FLOAT64),
        at("4_1", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("3_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 5), FLOATS_AND_32_BIT),
        at("1_0", (4, 5), FLOATS),
    )

    def define(self) -> Definition:
        """The sum, rounded once; integers wrap."""
        return _sum(self, lambda total: total)


class ElementWiseAdd1(ElementWise, type=OperatorType.ELEMENT_WISE_ADD1, since="2_0"):
    """Adds two tensors element by element, with an optional fused activation."""

    a_tensor: Value[TensorDesc] = tensor_input()
    b_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE, default=None)

    support = levels(at("3_0", (1, 8), FLOATS), at("2_0", (4, 5), FLOATS))

    def define(self) -> Definition:
        """The activation of the sum, which is not rounded to float16 before."""
        return _sum(self, lambda total: activate(self.fused_activation, total))


class ElementWiseClip(ElementWise, type=OperatorType.ELEMENT_WISE_CLIP, since="1_0"):
    """Clamps each element to the closed interval [Min, Max] (FLOAT limits). Without tensors a fused activation."""

    input_tensor: Value[TensorDesc] = tensor_input(default=None, optional=False)
    output_tensor: Value[TensorDesc] = tensor_output(default=None, optional=False)
    scale_bias: OptionalScaleBias = scale_bias(default=None)
    min: Number = float_value()
    max: Number = float_value()

    support = levels(
        at("5_0", (1, 8), ALL_BUT_FLOAT64),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )

    def define(self) -> Definition:
        """``max(Min, min(x, Max))`` with limits converted to the tensor's type."""
        type = ELEMENT_TYPE_OF[self.output_tensor.data_type]
        return _clip(self, converted(self.min, type), converted(self.max, type))


class ElementWiseClip1(ElementWise, type=OperatorType.ELEMENT_WISE_CLIP1, since="5_0"):
    """Clamps each element to the closed interval [Min, Max], limits given in the data type of the tensor."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    scale_bias: OptionalScaleBias = scale_bias(default=None)
    min_max_data_type: Member[TensorDataType] = enumeration(TensorDataType)
    min: Scalar = scalar_union("min_max_data_type")
    max: Scalar = scalar_union("min_max_data_type")

    support = levels(at("5_0", (1, 8), ALL_BUT_FLOAT64))

    def check(self, rules: Rules) -> None:
        """The limits have the tensors' type."""
        super().check(rules)
        rules.is_data_type_of("min_max_data_type", "output_tensor")

    def define(self) -> Definition:
        """As CLIP, with limits of the tensor's own type."""
        type = ELEMENT_TYPE_OF[self.output_tensor.data_type]
        return _clip(self, scalar(self.min, type), scalar(self.max, type))


class Cast(Operator, type=OperatorType.CAST, since="1_0"):
    """Converts each element to the data type of the output."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_1", (1, 8), ALL_BUT_FLOAT64),
        at("3_0", (4, 4), ALL_BUT_FLOAT64),
        at("1_0", (4, 4), FLOATS_AND_8_TO_16_BIT),
    )

    def check(self, rules: Rules) -> None:
        """Any two data types, the same sizes."""
        rules.same_rank("input_tensor", "output_tensor")
        rules.same_sizes("input_tensor", "output_tensor")

    def define(self) -> Definition:
        """Every element by the rules of the grammar's ``Cast``, rounded once."""
        type = ELEMENT_TYPE_OF[self.output_tensor.data_type]
        return _map(self.input_tensor, self.output_tensor, lambda x: _converted_element(x, type))


def scaled(x: Expression, factors: ScaleBias | None) -> Expression:
    """``x * Scale + Bias``, a multiplication and an addition; float16 must have been widened before.

    Integers are computed in float64 and converted back as ``Cast`` does; 1 and 0 leave them as they are, exactly.
    """
    if factors is None or (x.type.is_integer and factors == (1, 0)):
        return x
    if x.type.is_integer:
        return cast(cast(x, F64) * factors.scale + factors.bias, x.type)
    return x * factors.scale + factors.bias


def each_element(desc: Operator, function: Callable[..., Expression]) -> Definition:
    """The definition of an operator with one output: ``output[i] = function(first input[i], second input[i] ...)``.

    The function gets elements as they are stored, None for an input that is not given; what it gives is converted to
    the output's type. An input of one element is the same for all ``i``.
    """
    sources = tuple(optional_tensor(name, described, "input") for name, described in desc.inputs())
    ((name, described),) = desc.outputs()
    assert described is not None
    target = tensor(name, described, "output")

    def value(coordinates: tuple[Expression, ...]) -> Expression:
        elements = (None if source is None else _element(source, coordinates) for source in sources)
        return cast(function(*elements), target.type)

    return Definition(sources, (target,), (every_element(target, value),))


def _element(source: Tensor, coordinates: tuple[Expression, ...]) -> Expression:
    return load(source, [i if size > 1 else 0 for i, size in zip(coordinates, source.sizes, strict=True)])


def _map(input_desc: TensorDesc, output_desc: TensorDesc, function: Function) -> Definition:
    """``output[i] = function(input[i])`` for every element."""
    source, target = tensor("InputTensor", input_desc, "input"), tensor("OutputTensor", output_desc, "output")
    statement = every_element(target, lambda i: cast(function(load(source, i)), target.type))
    return Definition((source,), (target,), (statement,))


def _sum(desc: ElementWiseAdd | ElementWiseAdd1, function: Function) -> Definition:
    a = tensor("ATensor", desc.a_tensor, "input")
    b = tensor("BTensor", desc.b_tensor, "input")
    target = tensor("OutputTensor", desc.output_tensor, "output")
    statement = every_element(target, lambda i: cast(function(widen(load(a, i)) + widen(load(b, i))), target.type))
    return Definition((a, b), (target,), (statement,))


def _clip(desc: ElementWiseClip | ElementWiseClip1, low: Expression, high: Expression) -> Definition:
    """NaN stays NaN, a limit that is NaN is none, and ``low`` prevails where it exceeds ``high``."""

    def clipped(element: Expression) -> Expression:
        return clip(scaled(widen(element), desc.scale_bias), widen(low), widen(high))

    return _map(desc.input_tensor, desc.output_tensor, clipped)


def _converted_element(x: Expression, type: ElementType) -> Expression:
    """float16 goes through float32, which is exact on the way up; from float64 down it is rounded by hand, once."""
    if x.type is type:
        return x
    if type is F16:
        return narrow_to_f16(x) if x.type is F64 else cast(cast(x, F32), F16)
    return cast(widen(x), type)

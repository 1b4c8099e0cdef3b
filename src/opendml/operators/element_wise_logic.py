"""Element-wise logic: truth values, comparisons, tests, selection, and operations on bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opendml.description.data_types import (
    ALL,
    ALL_BUT_FLOAT64,
    FLOATS,
    UINT8_ONLY,
    UINT32_ONLY,
    UP_TO_32_BIT,
    data_types,
)
from opendml.description.descriptors import Operator, Support, at, enumeration, levels, tensor_input, tensor_output
from opendml.description.enums import IsInfinityMode, OperatorType
from opendml.expression.element_types import ELEMENT_TYPES, ElementType
from opendml.expression.ir import Bitcast, Expression, binary, constant, select, unary
from opendml.expression.statements import Definition
from opendml.operators.element_wise import BinaryElementWise, ElementWise, UnaryElementWise, each_element

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Value
    from opendml.description.tensor import TensorDesc

TRUTH_VALUES: Final = data_types("UINT32 UINT8")
UNSIGNED: Final = data_types("UINT64 UINT32 UINT16 UINT8")
UNSIGNED_UP_TO_32_BIT: Final = data_types("UINT32 UINT16 UINT8")
FLOAT16_ONLY: Final = data_types("FLOAT16")


# ---- truth values: 0 is false, everything else true; results are 0 and 1

_LOGICAL_SUPPORT: Final[Support] = levels(
    at("3_0", (1, 8), TRUTH_VALUES),
    at("2_0", (4, 4), TRUTH_VALUES),
    at("1_0", (4, 4), UINT32_ONLY),
)


class ElementWiseLogicalAnd(BinaryElementWise, type=OperatorType.ELEMENT_WISE_LOGICAL_AND, since="1_0"):
    """1 where both elements are true, else 0."""

    support = _LOGICAL_SUPPORT

    def element(self, a: Expression, b: Expression) -> Expression:
        """C's ``&&``."""
        return a.differs(0) & b.differs(0)


class ElementWiseLogicalOr(BinaryElementWise, type=OperatorType.ELEMENT_WISE_LOGICAL_OR, since="1_0"):
    """1 where at least one of the elements is true, else 0."""

    support = _LOGICAL_SUPPORT

    def element(self, a: Expression, b: Expression) -> Expression:
        """C's ``||``."""
        return a.differs(0) | b.differs(0)


class ElementWiseLogicalXor(BinaryElementWise, type=OperatorType.ELEMENT_WISE_LOGICAL_XOR, since="1_0"):
    """1 where exactly one of the elements is true, else 0."""

    support = _LOGICAL_SUPPORT

    def element(self, a: Expression, b: Expression) -> Expression:
        """C's ``!a != !b``."""
        return a.differs(0) ^ b.differs(0)


class ElementWiseLogicalNot(UnaryElementWise, type=OperatorType.ELEMENT_WISE_LOGICAL_NOT, since="1_0"):
    """1 where the element is false, else 0."""

    support = _LOGICAL_SUPPORT

    def element(self, x: Expression) -> Expression:
        """C's ``!``."""
        return x.equals(0)


# ---- comparisons: IEEE 754's, so false with NaN


class Comparison(BinaryElementWise):
    """What the comparisons share: two tensors alike, 1 for true and 0 for false in a type of the output's own."""

    in_place = False
    alike = (("a_tensor", "b_tensor"),)
    support = levels(
        at("4_1", (1, 8), ALL_BUT_FLOAT64, output_tensor=TRUTH_VALUES),
        at("3_0", (1, 8), UP_TO_32_BIT, output_tensor=TRUTH_VALUES),
        at("2_1", (4, 4), UP_TO_32_BIT, output_tensor=TRUTH_VALUES),
        at("2_0", (4, 4), FLOATS, output_tensor=TRUTH_VALUES),
        at("1_0", (4, 4), FLOATS, output_tensor=UINT32_ONLY),
    )


class ElementWiseLogicalEquals(Comparison, type=OperatorType.ELEMENT_WISE_LOGICAL_EQUALS, since="1_0"):
    """1 where two elements are equal, else 0."""

    def element(self, a: Expression, b: Expression) -> Expression:
        """``a == b``: -0 equals +0."""
        return a.equals(b)


class ElementWiseLogicalGreaterThan(Comparison, type=OperatorType.ELEMENT_WISE_LOGICAL_GREATER_THAN, since="1_0"):
    """1 where the first element is greater than the second, else 0."""

    def element(self, a: Expression, b: Expression) -> Expression:
        """``a > b``."""
        return a > b


class ElementWiseLogicalLessThan(Comparison, type=OperatorType.ELEMENT_WISE_LOGICAL_LESS_THAN, since="1_0"):
    """1 where the first element is less than the second, else 0."""

    def element(self, a: Expression, b: Expression) -> Expression:
        """``a < b``."""
        return a < b


class ElementWiseLogicalGreaterThanOrEqual(
    Comparison, type=OperatorType.ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL, since="3_0"
):
    """1 where the first element is greater than the second or equal to it, else 0."""

    support = Comparison.support[:2]

    def element(self, a: Expression, b: Expression) -> Expression:
        """``a >= b``."""
        return a >= b


class ElementWiseLogicalLessThanOrEqual(
    Comparison, type=OperatorType.ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL, since="3_0"
):
    """1 where the first element is less than the second or equal to it, else 0."""

    support = Comparison.support[:2]

    def element(self, a: Expression, b: Expression) -> Expression:
        """``a <= b``."""
        return a <= b


# ---- tests and selection


class ElementWiseIsNan(UnaryElementWise, type=OperatorType.ELEMENT_WISE_IS_NAN, since="2_0"):
    """1 where the element is NaN, else 0."""

    in_place = False
    alike = (("input_tensor",), ("output_tensor",))
    support = levels(
        at("3_0", (1, 8), FLOATS, output_tensor=TRUTH_VALUES),
        at("2_0", (4, 4), FLOATS, output_tensor=TRUTH_VALUES),
    )

    def element(self, x: Expression) -> Expression:
        """Quiet and signalling NaN of either sign."""
        return x.differs(x)


class ElementWiseIsInfinity(UnaryElementWise, type=OperatorType.ELEMENT_WISE_IS_INFINITY, since="2_1"):
    """1 where the element is infinite, of either or of a chosen sign, else 0."""

    infinity_mode: Member[IsInfinityMode] = enumeration(IsInfinityMode)

    alike = (("input_tensor",), ("output_tensor",))
    support = levels(
        at("3_0", (1, 8), FLOATS, output_tensor=UINT8_ONLY),
        at("2_1", (4, 4), FLOATS, output_tensor=UINT8_ONLY),
    )

    def element(self, x: Expression) -> Expression:
        """A comparison with the infinities that count."""
        if self.infinity_mode is IsInfinityMode.EITHER:
            return unary("abs", x).equals(float("inf"))
        return x.equals(float("inf" if self.infinity_mode is IsInfinityMode.POSITIVE else "-inf"))


class ElementWiseIf(ElementWise, type=OperatorType.ELEMENT_WISE_IF, since="2_0"):
    """Selects the element of A where the condition is not 0, else that of B."""

    condition_tensor: Value[TensorDesc] = tensor_input()
    a_tensor: Value[TensorDesc] = tensor_input()
    b_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    in_place = False
    alike = (("a_tensor", "b_tensor", "output_tensor"),)
    support = levels(
        at("5_0", (1, 8), ALL, condition_tensor=UINT8_ONLY),
        at("3_0", (1, 8), UP_TO_32_BIT, condition_tensor=UINT8_ONLY),
        at("2_0", (4, 4), FLOAT16_ONLY, condition_tensor=UINT8_ONLY),
    )

    def define(self) -> Definition:
        """A copy, bit for bit."""
        return each_element(self, lambda condition, a, b: select(condition.differs(0), a, b))


# ---- bits: the data type only says how many

_BIT_SUPPORT: Final[Support] = levels(at("4_1", (1, 8), ALL), at("3_0", (1, 8), UNSIGNED_UP_TO_32_BIT))

_SHIFT_SUPPORT: Final[Support] = levels(
    at("4_1", (1, 8), UNSIGNED),
    at("3_0", (1, 8), UNSIGNED_UP_TO_32_BIT),
    at("2_1", (4, 4), UNSIGNED_UP_TO_32_BIT),
)


class ElementWiseBitAnd(BinaryElementWise, type=OperatorType.ELEMENT_WISE_BIT_AND, since="3_0"):
    """The bits that are set in both elements."""

    support = _BIT_SUPPORT

    def define(self) -> Definition:
        """On the elements as they are stored."""
        return _each_pattern(self, "and")


class ElementWiseBitOr(BinaryElementWise, type=OperatorType.ELEMENT_WISE_BIT_OR, since="3_0"):
    """The bits that are set in at least one of the elements."""

    support = _BIT_SUPPORT

    def define(self) -> Definition:
        """On the elements as they are stored."""
        return _each_pattern(self, "or")


class ElementWiseBitXor(BinaryElementWise, type=OperatorType.ELEMENT_WISE_BIT_XOR, since="3_0"):
    """The bits that are set in exactly one of the elements."""

    support = _BIT_SUPPORT

    def define(self) -> Definition:
        """On the elements as they are stored."""
        return _each_pattern(self, "xor")


class ElementWiseBitNot(UnaryElementWise, type=OperatorType.ELEMENT_WISE_BIT_NOT, since="3_0"):
    """The bits that are not set in the element."""

    support = _BIT_SUPPORT

    def define(self) -> Definition:
        """On the elements as they are stored."""
        return each_element(self, lambda x: Bitcast(~_pattern(x), x.type))


class ElementWiseBitCount(UnaryElementWise, type=OperatorType.ELEMENT_WISE_BIT_COUNT, since="3_0"):
    """The number of bits that are set in the element."""

    in_place = False
    alike = (("input_tensor",), ("output_tensor",))
    support = levels(
        at("4_1", (1, 8), ALL, output_tensor=TRUTH_VALUES),
        at("3_0", (1, 8), UNSIGNED_UP_TO_32_BIT, output_tensor=TRUTH_VALUES),
    )

    def define(self) -> Definition:
        """On the elements as they are stored."""
        return each_element(self, lambda x: _bit_count(_pattern(x)))


class ElementWiseBitShiftLeft(BinaryElementWise, type=OperatorType.ELEMENT_WISE_BIT_SHIFT_LEFT, since="2_1"):
    """The bits of A moved up by as many places as B says."""

    support = _SHIFT_SUPPORT

    def element(self, a: Expression, b: Expression) -> Expression:
        """``a * 2^b``, wrapped: 0 where all bits are shifted out."""
        return select(b < a.type.bits, a << b, 0)


class ElementWiseBitShiftRight(BinaryElementWise, type=OperatorType.ELEMENT_WISE_BIT_SHIFT_RIGHT, since="2_1"):
    """The bits of A moved down by as many places as B says."""

    support = _SHIFT_SUPPORT

    def element(self, a: Expression, b: Expression) -> Expression:
        """``a / 2^b``, rounded down: 0 where all bits are shifted out."""
        return select(b < a.type.bits, a >> b, 0)


def _each_pattern(desc: Operator, operation: str) -> Definition:
    return each_element(desc, lambda a, b: Bitcast(binary(operation, _pattern(a), _pattern(b)), a.type))


def _pattern(x: Expression) -> Expression:
    """The bits of an element as an unsigned integer."""
    return Bitcast(x, ELEMENT_TYPES[f"u{x.type.bits}"])


def _bit_count(x: Expression) -> Expression:
    """The number of bits set in an unsigned integer: counted in pairs, in fours, in bytes, which are then summed up."""
    x = x - ((x >> 1) & _repeated(0x55, x.type))
    x = (x & _repeated(0x33, x.type)) + ((x >> 2) & _repeated(0x33, x.type))
    x = (x + (x >> 4)) & _repeated(0x0F, x.type)
    return (x * _repeated(0x01, x.type)) >> (x.type.bits - 8)


def _repeated(byte: int, type: ElementType) -> Expression:
    """The constant that has ``byte`` in all its bytes."""
    return constant(int.from_bytes(bytes([byte]) * (type.bits // 8), "little"), type)

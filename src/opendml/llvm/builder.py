"""A writer of LLVM IR text: the table of instructions for the operations of expressions."""

from __future__ import annotations

import functools
from typing import Final

from opendml.expression.element_types import BOOL, F16, F32, I32, U32, ElementType
from opendml.expression.ir import WORD_PRODUCTS, constant
from opendml.llvm.lanes import Lanes
from opendml.llvm.values import LLVM_TYPES, UNSIGNED, Value, suffix, vector_type

# Operation -> instruction by kind of type: (float, signed, unsigned). Comparisons with NaN are false, except "ne".
_BINARY: Final[dict[str, tuple[str, str, str]]] = {
    "add": ("fadd", "add", "add"),
    "sub": ("fsub", "sub", "sub"),
    "mul": ("fmul", "mul", "mul"),
    "div": ("fdiv", "sdiv", "udiv"),
    "rem": ("frem", "srem", "urem"),
    "and": ("", "and", "and"),
    "or": ("", "or", "or"),
    "xor": ("", "xor", "xor"),
    "shl": ("", "shl", "shl"),
    "shr": ("", "ashr", "lshr"),
    "eq": ("fcmp oeq", "icmp eq", "icmp eq"),
    "ne": ("fcmp une", "icmp ne", "icmp ne"),
    "lt": ("fcmp olt", "icmp slt", "icmp ult"),
    "le": ("fcmp ole", "icmp sle", "icmp ule"),
    "gt": ("fcmp ogt", "icmp sgt", "icmp ugt"),
    "ge": ("fcmp oge", "icmp sge", "icmp uge"),
}
_KIND_COLUMN: Final = {"float": 0, "int": 1, "uint": 2, "bool": 2}
_COMPARISON: Final = ("eq", "ne", "lt", "le", "gt", "ge")
ROUNDING: Final = 3 << 22
"""A number of 24 bits, an even one: what is added to it in float32 is rounded to nearest even."""

_ROUNDINGS: Final = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round_even": "rint", "sqrt": "sqrt"}


class Builder(Lanes):
    """A function being written: what computes. Lanes of operands are aligned, results have as many."""

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        """One of the grammar's binary operations."""
        if operation in ("div", "rem", "shl", "shr") and a.type.is_integer and not _is_harmless(operation, b):
            return self._guarded(operation, *self.aligned(a, b))
        if operation in WORD_PRODUCTS:
            return self.dot(operation, a, b, Value("0", I32))
        a, b = self.aligned(a, b)
        if operation in ("min", "max"):
            first = self.binary("lt" if operation == "min" else "gt", a, b)
            return self.select(first, a, b)
        return self._instruction(operation, a, b)

    def _instruction(self, operation: str, a: Value, b: Value) -> Value:
        instruction = _BINARY[operation][_KIND_COLUMN[a.type.kind]]
        text = self.assign(f"{instruction} {a.typed}, {b.text}")
        return Value(text, BOOL if operation in _COMPARISON else a.type, a.lanes)

    def _guarded(self, operation: str, a: Value, b: Value) -> Value:
        """Divisions and shifts whose right operand may be one for which the instruction traps or gives anything."""

        def every_lane(number: int, type: ElementType = a.type) -> Value:
            return self.spread(Value(str(number), type), a.lanes)

        zero, width = every_lane(0), a.type.bits
        if operation in ("shl", "shr"):
            unsigned = UNSIGNED[a.type.name]
            is_short = self.binary("lt", b._replace(type=unsigned), every_lane(width, unsigned))
            if operation == "shr" and a.type.kind == "int":
                return self._instruction(operation, a, self.select(is_short, b, every_lane(width - 1)))
            return self.select(is_short, self._instruction(operation, a, self.select(is_short, b, zero)), zero)
        is_zero = self.binary("eq", b, zero)
        replaced = is_zero
        if a.type.kind == "int":
            # The only quotient that does not fit wraps: it is the dividend itself.
            lowest = self.binary("eq", a, every_lane(-(1 << (width - 1))))
            overflow = self.binary("and", lowest, self.binary("eq", b, every_lane(-1)))
            replaced = self.binary("or", is_zero, overflow)
        result = self._instruction(operation, a, self.select(replaced, every_lane(1), b))
        return self.select(is_zero, zero if operation == "div" else a, result)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Lane by lane ``a`` where the condition holds, else ``b``; both are computed already."""
        lanes = max(condition.lanes, a.lanes, b.lanes)
        a, b = self.spread(a, lanes), self.spread(b, lanes)
        text = self.assign(f"select {condition.typed}, {a.typed}, {b.typed}")
        return Value(text, a.type, lanes)

    def any_lane(self, condition: Value) -> Value:
        """Whether a condition holds in some lane, which the code is laid out not to expect."""
        if condition.lanes > 1:
            reduce = f"llvm.vector.reduce.or.{suffix(condition)}"
            self.declarations.add(f"declare i1 @{reduce}({condition.llvm_type})")
            condition = Value(self.assign(f"call i1 @{reduce}({condition.typed})"), BOOL)
        self.declarations.add("declare i1 @llvm.expect.i1(i1, i1)")
        return condition._replace(text=self.assign(f"call i1 @llvm.expect.i1(i1 {condition.text}, i1 false)"))

    def largest_lane(self, a: Value) -> Value:
        """The largest lane of signed integers."""
        reduce = f"llvm.vector.reduce.smax.{suffix(a)}"
        self.declarations.add(f"declare {LLVM_TYPES[a.type.name]} @{reduce}({a.llvm_type})")
        return Value(self.assign(f"call {LLVM_TYPES[a.type.name]} @{reduce}({a.typed})"), a.type)

    def unary(self, operation: str, a: Value) -> Value:
        """One of the grammar's unary operations."""
        if operation == "not":
            ones = "true" if a.type is BOOL else "-1"
            return a._replace(text=self.assign(f"xor {a.typed}, {self.spread(Value(ones, a.type), a.lanes).text}"))
        if a.type.is_float:
            return self._float_unary(operation, a)
        zero = self.spread(Value("0", a.type), a.lanes)
        if operation == "neg":
            return self.binary("sub", zero, a)
        if operation == "abs" and a.type.kind == "int":
            return self.select(self.binary("lt", a, zero), self.binary("sub", zero, a), a)
        return a

    def _float_unary(self, operation: str, a: Value) -> Value:
        if operation == "neg":
            return a._replace(text=self.assign(f"fneg {a.typed}"))
        if a.type is F16 and operation != "abs":
            # Exact for roundings, and correctly rounded for the square root: float32 has more than twice the digits.
            return self.cast(self._float_unary(operation, self.cast(a, F32)), F16)
        name = "fabs" if operation == "abs" else _ROUNDINGS[operation]
        return self.intrinsic(f"llvm.{name}.{suffix(a)}", a, a)

    def fused_multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """``a * b + c`` with one rounding; of integers modulo their width."""
        a, b, c = self.aligned(a, b, c)
        if a.type.is_integer:
            return self.binary("add", self.binary("mul", a, b), c)
        return self.intrinsic(f"llvm.fma.{suffix(a)}", a, a, b, c)

    def dot(self, operation: str, a: Value, b: Value, c: Value) -> Value:
        """A product of words, plus ``c``."""
        a, b, c = self.aligned(a, b, c)
        return self.binary("add", self._dot_of_parts(operation, a, b), c)

    def _dot_of_parts(self, operation: str, a: Value, b: Value) -> Value:
        """The products one by one."""
        count = WORD_PRODUCTS[operation]
        bits = 32 // count
        products: list[Value] = []
        for i in range(count):
            up, down = (self.spread(Value(str(n), I32), a.lanes) for n in (32 - bits * (i + 1), 32 - bits))
            x, y = (self.binary("shl", v, up) for v in (a, b))
            unsigned = x._replace(type=U32) if count == 4 else x
            left = self._instruction("shr", unsigned, down)._replace(type=I32)
            products.append(self.binary("mul", left, self._instruction("shr", y, down)))
        add = functools.partial(self.binary, "add")
        if operation == "dot4_saturating":
            products = [self._saturated(add(*pair)) for pair in zip(products[::2], products[1::2], strict=True)]
        return functools.reduce(add, products)

    def _saturated(self, a: Value) -> Value:
        """The nearest number of 16 bits."""
        low, high = (self.spread(self.constant(constant(bound, I32)), a.lanes) for bound in (-(1 << 15), (1 << 15) - 1))
        return self.binary("min", self.binary("max", a, low), high)

    def bitcast(self, a: Value, type: ElementType) -> Value:
        """The same bits as another type."""
        if LLVM_TYPES[a.type.name] == LLVM_TYPES[type.name]:
            return a._replace(type=type)
        return Value(self.assign(f"bitcast {a.typed} to {vector_type(type, a.lanes)}"), type, a.lanes)

    def cast(self, a: Value, type: ElementType) -> Value:
        """The grammar's conversions."""
        if a.type is type:
            return a
        if type is BOOL:
            zero = self.spread(Value("0.0" if a.type.is_float else "0", a.type), a.lanes)
            return self.binary("ne", a, zero)
        if a.type.is_float:
            return self._float_cast(a, type)
        if type.is_float:
            return self._integer_to_float(a, type)
        return self._resized(a, type)

    def _resized(self, a: Value, type: ElementType) -> Value:
        if LLVM_TYPES[a.type.name] == LLVM_TYPES[type.name]:
            return a._replace(type=type)
        instruction = "trunc" if type.bits < a.type.bits else ("sext" if a.type.kind == "int" else "zext")
        return self._convert(instruction, a, type)

    def _convert(self, instruction: str, a: Value, type: ElementType) -> Value:
        return Value(self.assign(f"{instruction} {a.typed} to {vector_type(type, a.lanes)}"), type, a.lanes)

    def _float_cast(self, a: Value, type: ElementType) -> Value:
        if type.is_float:
            return self._convert("fptrunc" if type.bits < a.type.bits else "fpext", a, type)
        if a.type is F16:
            return self._float_cast(self.cast(a, F32), type)
        if type.bits < 32:
            return self._narrow_float_cast(a, type)
        # Values that do not fit convert to anything and are replaced; LLVM's saturating intrinsics are slower.
        low, high = (-(2 ** (type.bits - 1)), 2 ** (type.bits - 1)) if type.kind == "int" else (0, 2**type.bits)
        converted = self._convert("fptosi" if type.kind == "int" else "fptoui", a, type)
        limits = [constant(number, a.type) for number in (low, high)]
        lowest, beyond = (self.spread(self.constant(limit), a.lanes) for limit in limits)
        at_least = self.binary("ge", a, lowest)
        result = self.select(at_least, converted, self.spread(Value(str(low), type), a.lanes))
        result = self.select(
            self.binary("lt", a, beyond), result, self.spread(self.constant(constant(high - 1, type)), a.lanes)
        )
        return self.select(self.binary("eq", a, a), result, self.spread(Value("0", type), a.lanes))

    def _narrow_float_cast(self, a: Value, type: ElementType) -> Value:
        """To 8 or 16 bits: all their numbers are floating-point numbers, so the clamping is exact before converting."""
        return self._resized(self._convert("fptosi", self._clamped(a, type), I32), type)

    def whole_number(self, a: Value, type: ElementType) -> Value:
        """The float32 of the integer of 8 or 16 bits that ``a``, a whole number, infinite or NaN, is converted to."""
        clamped = self._clamped(a, type)
        # What is clamped to 0 is +0 already, and -0 above a lower limit is not.
        return clamped if type.kind == "uint" else self.binary("add", clamped, self._spread_number(0, a))

    def rounded_integer(self, a: Value, offset: int | Value, type: ElementType) -> Value:
        """The integer of 8 or 16 bits that ``a``, a float32 that is rounded to nearest even, and ``offset``, of as many
        bits at most if it is not known, become."""
        bits = self.bitcast(self._rounded(a, offset, type), I32)
        whole = Value(str(offset), I32) if isinstance(offset, int) else self.cast(offset, I32)
        moved = bits if offset == 0 else self.binary("add", bits, self.spread(whole, a.lanes))
        return self._resized(moved, type)

    def rounded_number(self, a: Value, offset: int | Value, type: ElementType) -> Value:
        """The float32 of that integer without the ``offset``."""
        return self.binary("sub", self._rounded(a, offset, type), self._spread_number(ROUNDING, a))

    def _rounded(self, a: Value, offset: int | Value, type: ElementType) -> Value:
        """ROUNDING and ``a`` rounded, in the range of a type without ``offset``. Of numbers this large every whole one
        is a float32, and the next one is the next pattern of bits."""
        return self.binary("add", self._clamped(a, type, offset), self._spread_number(ROUNDING, a))

    def _clamped(self, a: Value, type: ElementType, offset: int | Value = 0) -> Value:
        """Numbers in the range of a type of 8 or 16 bits less an ``offset``; for NaN, which is not above the least
        unsigned number, what is 0 with it."""
        low, high = (-(2 ** (type.bits - 1)), 2 ** (type.bits - 1) - 1) if type.kind == "int" else (0, 2**type.bits - 1)
        if low:
            a = self.select(self.binary("eq", a, a), a, self._spread_number(0, a, offset))
        for comparison, number in (("gt", low), ("lt", high)):
            bound = self._spread_number(number, a, offset)
            a = self.select(self.binary(comparison, a, bound), a, bound)
        return a

    def _spread_number(self, number: int, a: Value, offset: int | Value = 0) -> Value:
        """A whole number less an ``offset``, of the type of ``a``."""
        if isinstance(offset, int):
            return self.spread(self.constant(constant(number - offset, a.type)), a.lanes)
        found = self.binary("sub", self.constant(constant(number, a.type)), self.cast(offset, a.type))
        return self.spread(found, a.lanes)

    def _integer_to_float(self, a: Value, type: ElementType) -> Value:
        if type is F16 and a.type is not BOOL:
            # What float32 rounds is beyond the range of float16 anyway.
            return self.cast(self._integer_to_float(a, F32), F16)
        return self._convert("sitofp" if a.type.kind == "int" else "uitofp", a, type)


def _is_harmless(operation: str, b: Value) -> bool:
    """Whether the right operand is a constant for which division or shift needs no care."""
    try:
        number = int(b.text)
    except ValueError:
        return False
    return number > 0 if operation in ("div", "rem") else 0 <= number < b.type.bits


__all__ = ["ROUNDING", "Builder"]

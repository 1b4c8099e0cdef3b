"""A writer of LLVM IR text: values with types and lanes, structured control flow, and the table of instructions.

Control flow is structured (``loop``, ``branch``), so every value is in SSA form as it is written and no pass has to
find out what is a loop. A ``Value`` of one lane is a scalar; it is spread over lanes only where a vector needs it,
so what is the same for all lanes is computed once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from opendml.expression.element_types import BOOL, F16, F32, F64, I32, I64, U8, U16, U32, U64, ElementType
from opendml.expression.ir import WORD_PRODUCTS, Const, constant
from opendml.loops.alignment import ALIGNMENT

LLVM_TYPES: Final = {
    "f16": "half",
    "f32": "float",
    "f64": "double",
    "i8": "i8",
    "u8": "i8",
    "i16": "i16",
    "u16": "i16",
    "i32": "i32",
    "u32": "i32",
    "i64": "i64",
    "u64": "i64",
    "bool": "i1",
}

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
UNSIGNED: Final = {"i8": U8, "i16": U16, "i32": U32, "i64": U64, "u8": U8, "u16": U16, "u32": U32, "u64": U64}
_KIND_COLUMN: Final = {"float": 0, "int": 1, "uint": 2, "bool": 2}
_COMPARISON: Final = ("eq", "ne", "lt", "le", "gt", "ge")
ROUNDING: Final = 3 << 22
"""A number of 24 bits, an even one: what is added to it in float32 is rounded to nearest even."""

_ROUNDINGS: Final = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round_even": "rint", "sqrt": "sqrt"}

ROLLED: Final = ", !llvm.loop !1"
"""On the jump that closes a loop: the optimiser must not unroll it."""


class Value(NamedTuple):
    """An LLVM operand: its text, the type of an element, and the number of lanes (1: a scalar)."""

    text: str
    type: ElementType
    lanes: int = 1

    @property
    def llvm_type(self) -> str:
        """The LLVM type of the operand."""
        return vector_type(self.type, self.lanes)

    @property
    def typed(self) -> str:
        """The operand with its type before it."""
        return f"{vector_type(self.type, self.lanes)} {self.text}"


def vector_type(type: ElementType, lanes: int) -> str:
    """The LLVM type of ``lanes`` elements; the element type itself for one."""
    name = LLVM_TYPES[type.name]
    return name if lanes == 1 else f"<{lanes} x {name}>"


def literal(const: Const) -> str:
    """A constant as LLVM writes it; floating point as bits, so that it is exact."""
    if const.type is F16:
        return f"0xH{const.bits:04X}"
    if const.type is F32:
        (number,) = struct.unpack("<f", const.bits.to_bytes(4, "little"))
        if number != number:
            # Widening by hand keeps the payload and the quiet bit of a NaN.
            sign, payload = const.bits >> 31, const.bits & 0x7FFFFF
            return f"0x{(sign << 63) | (0x7FF << 52) | (payload << 29):016X}"
        return f"0x{int.from_bytes(struct.pack('<d', number), 'little'):016X}"
    if const.type is F64:
        return f"0x{const.bits:016X}"
    if const.type is BOOL:
        return "true" if const.bits else "false"
    return str(const.bits - (1 << const.type.bits) if const.bits >> (const.type.bits - 1) else const.bits)


class Builder:
    """One LLVM function being written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.allocations: list[str] = []
        self.scratch_bytes = 0  # of the thread's own memory, at %scratch
        self.is_pooled = False  # whether it takes work items from pools, which %taken counts
        self.is_controlled = False  # whether the function asks now and then, with %control, whether it is to go on
        self.rolled = False  # whether loops are to stay as they are written
        self._count = 0
        self._spread: dict[tuple[str, ElementType, int], Value] = {}  # scalars in all lanes, known in this block
        self.block = "entry"

    # Names, lines, blocks ------------------------------------------------------------------------------------------

    def fresh(self, prefix: str = "v") -> str:
        """A name that no other value or block has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def assign(self, text: str) -> str:
        """A line that defines a new value; its name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """A line that defines nothing."""
        self.lines.append(f"  {text}")

    def allocate(self, name: str, size: int) -> str:
        """``size`` bytes of the thread's own memory, aligned to ``ALIGNMENT``; their address.

        It is the program's unless it is little: a caller's stack may be small, and what a kernel needs may be large.
        """
        self.allocations.append(f"  %{name} = getelementptr i8, ptr %scratch, i64 {self.scratch_bytes}")
        self.scratch_bytes += -(-size // ALIGNMENT) * ALIGNMENT
        return f"%{name}"

    def begin(self, label: str) -> None:
        """Start the block ``label``."""
        self.lines.append(f"{label}:")
        self.block = label
        self._spread.clear()

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self.line(f"br label %{label}")

    # Control flow --------------------------------------------------------------------------------------------------

    def loop(
        self,
        first: str,
        last: str,
        step: int,
        carried: Sequence[Value],
        body: Callable[[str, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """``for i in range(first, last, step)``: the carried values after it. ``body(i, values)`` gives new ones."""
        header, inside, done = self.fresh("loop"), self.fresh("body"), self.fresh("done")
        before = self.block
        self.jump(header)
        self.begin(header)
        position = f"%{self.fresh('i')}"
        slot = len(self.lines)
        values = [v._replace(text=f"%{self.fresh('c')}") for v in carried]
        self.lines += [""] * (1 + len(values))
        go_on = self.assign(f"icmp slt i64 {position}, {last}")
        self.line(f"br i1 {go_on}, label %{inside}, label %{done}")
        self.begin(inside)
        results = body(position, values)
        following = self.assign(f"add nsw i64 {position}, {step}")
        end = self.block
        self.line(f"br label %{header}{ROLLED if self.rolled else ''}")
        self.lines[slot] = f"  {position} = phi i64 [ {first}, %{before} ], [ {following}, %{end} ]"
        for number, (value, start, result) in enumerate(zip(values, carried, results, strict=True), slot + 1):
            incoming = f"[ {start.text}, %{before} ], [ {result.text}, %{end} ]"
            self.lines[number] = f"  {value.text} = phi {value.llvm_type} {incoming}"
        self.begin(done)
        return values

    def branch(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> list[Value]:
        """``if condition``: the values of the branch taken, which must agree in types."""
        yes, no, done = self.fresh("then"), self.fresh("else"), self.fresh("join")
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}")
        self.begin(yes)
        first = list(then())
        first_end = self.block
        slot = len(self.lines)
        self.lines.append("")
        self.begin(no)
        second = list(otherwise())
        second_end = self.block
        lanes = [max(a.lanes, b.lanes) for a, b in zip(first, second, strict=True)]
        second = [self.spread(v, n) for v, n in zip(second, lanes, strict=True)]
        self.jump(done)
        tail = self.lines[slot + 1 :]
        del self.lines[slot:]
        self._spread.clear()
        first = [self.spread(v, n) for v, n in zip(first, lanes, strict=True)]
        self.jump(done)
        self.lines += tail
        self.begin(done)
        merged = []
        for a, b in zip(first, second, strict=True):
            text = self.assign(f"phi {a.llvm_type} [ {a.text}, %{first_end} ], [ {b.text}, %{second_end} ]")
            merged.append(a._replace(text=text))
        return merged

    # Values --------------------------------------------------------------------------------------------------------

    def constant(self, const: Const) -> Value:
        """A constant operand, a scalar."""
        return Value(literal(const), const.type)

    def spread(self, value: Value, lanes: int) -> Value:
        """The value in all of ``lanes`` lanes: written once in a block, which is much less for LLVM to read."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise ValueError(f"{value} cannot have {lanes} lanes")
        if not value.text.startswith("%"):
            return Value(f"splat ({value.typed})", value.type, lanes)
        key = value.text, value.type, lanes
        found = self._spread.get(key)
        if found is None:
            target = vector_type(value.type, lanes)
            one = self.assign(f"insertelement {target} poison, {value.typed}, i64 0")
            text = self.assign(f"shufflevector {target} {one}, {target} poison, <{lanes} x i32> zeroinitializer")
            found = self._spread[key] = Value(text, value.type, lanes)
        return found

    def aligned(self, *values: Value) -> list[Value]:
        """The values with as many lanes as the widest of them has."""
        lanes = max([v.lanes for v in values])
        return [v if v.lanes == lanes else self.spread(v, lanes) for v in values]

    def shuffle(self, a: Value, b: Value | None, order: Sequence[int]) -> Value:
        """Lanes picked from ``a`` followed by ``b``."""
        second = f"{a.llvm_type} poison" if b is None else b.typed
        mask = ", ".join(f"i32 {i}" for i in order)
        if len(order) == 1:
            return Value(self.assign(f"extractelement {a.typed}, i64 {order[0]}"), a.type)
        text = self.assign(f"shufflevector {a.typed}, {second}, <{len(order)} x i32> <{mask}>")
        return Value(text, a.type, len(order))

    def interleaved(self, values: Sequence[Value]) -> Value:
        """Lane 0 of every value, then lane 1 of every value, and so on."""
        if len(values) % 2 == 0 and len(values) > 2:
            even, odd = self.interleaved(values[::2]), self.interleaved(values[1::2])
            return self.interleaved([even, odd])
        joined = values[0]
        for value in values[1:]:
            if value.lanes < joined.lanes:
                value = self.shuffle(value, None, [min(i, value.lanes - 1) for i in range(joined.lanes)])
            joined = self.shuffle(joined, value, range(joined.lanes + values[0].lanes))
        lanes, count = values[0].lanes, len(values)
        return self.shuffle(joined, None, [number * lanes + lane for lane in range(lanes) for number in range(count)])

    def transposed(self, rows: Sequence[Value], *, fenced: bool = False) -> list[Value]:
        """The columns of a square of vectors of at most 64 bytes; with fences between the shuffles, if these are to
        stay as they are written. Of what is loaded, LLVM makes loads that do a part of the work, but not of vectors of
        four blocks: there is a fence before these are exchanged.

        First groups of rows in each 16 bytes of the vectors, then blocks of 16 bytes between the groups: what
        processors have instructions for, and LLVM finds quickly.
        """
        count, unit = len(rows), min(len(rows), 128 // max(rows[0].type.bits, 8))
        values, size = list(rows), 1
        while size < unit:
            for i in (i for i in range(count) if not i & size):
                pair = self._unpacked(values[i], values[i + size], size, unit)
                values[i], values[i + size] = map(self.fenced, pair) if fenced else pair
            size *= 2
        if not fenced and count == 4 * unit:
            values = list(map(self.fenced, values))
        columns: list[Value] = []
        for residue in range(unit):
            place = sum(unit >> 1 >> bit for bit in range(unit.bit_length()) if residue >> bit & 1)
            columns += self._exchanged(values[place::unit], unit, self.fenced if fenced else lambda value: value)
        blocks = count // unit
        return [columns[column % unit * blocks + column // unit] for column in range(count)]

    def _unpacked(self, a: Value, b: Value, size: int, unit: int) -> tuple[Value, Value]:
        """In every ``unit`` lanes, pieces of ``size`` lanes of both by turns: of the lower and of the upper halves."""

        def half(upper: bool) -> Value:
            order = [
                start + (unit // 2 if upper else 0) + piece + lane + (a.lanes if second else 0)
                for start in range(0, a.lanes, unit)
                for piece in range(0, unit // 2, size)
                for second in (False, True)
                for lane in range(size)
            ]
            return self.shuffle(a, b, order)

        return half(False), half(True)

    def _exchanged(self, rows: Sequence[Value], unit: int, kept: Callable[[Value], Value]) -> list[Value]:
        """A square of blocks of ``unit`` lanes transposed: 1, 2 or 4 rows of as many blocks; ``kept``: what is done to
        the result of each shuffle."""

        def picked(a: Value, b: Value, blocks: Sequence[int]) -> Value:
            return kept(self.shuffle(a, b, [block * unit + lane for block in blocks for lane in range(unit)]))

        if len(rows) == 1:
            return list(rows)
        if len(rows) == 2:
            return [picked(rows[0], rows[1], (0, 2)), picked(rows[0], rows[1], (1, 3))]
        a, b, c, d = rows
        halves = [(picked(a, b, blocks), picked(c, d, blocks)) for blocks in ((0, 1, 4, 5), (2, 3, 6, 7))]
        return [picked(upper, lower, blocks) for upper, lower in halves for blocks in ((0, 2, 4, 6), (1, 3, 5, 7))]

    def extract(self, value: Value, lane: int) -> Value:
        """One lane as a scalar."""
        if value.lanes == 1:
            return value
        return Value(self.assign(f"extractelement {value.typed}, i64 {lane}"), value.type)

    def gathered(self, scalars: Sequence[Value], lanes: int) -> Value:
        """A vector of scalars; lanes without one are undefined."""
        type = scalars[0].type
        if lanes == 1:
            return scalars[0]
        text = "poison"
        for lane, scalar in enumerate(scalars):
            text = self.assign(f"insertelement {vector_type(type, lanes)} {text}, {scalar.typed}, i64 {lane}")
        return Value(text, type, lanes)

    def progression(self, step: int, type: ElementType, lanes: int) -> Value:
        """The constant vector 0, step, 2 * step ..."""
        limit = 1 << type.bits
        element = LLVM_TYPES[type.name]
        numbers = ((lane * step) % limit for lane in range(lanes))
        texts = (str(n - limit if n >= limit >> 1 else n) for n in numbers)
        return Value("<" + ", ".join(f"{element} {t}" for t in texts) + ">", type, lanes)

    def intrinsic(self, name: str, result: Value, *operands: Value) -> Value:
        """A call of ``llvm.name`` on operands of the lanes of ``result``, which gives type and lanes."""
        kind = result.llvm_type
        kinds = [vector_type(v.type, v.lanes) for v in operands]
        self.declarations.add(f"declare {kind} @{name}({', '.join(kinds)})")
        given = ", ".join([f"{k} {v.text}" for k, v in zip(kinds, operands, strict=True)])
        return Value(self.assign(f"call {kind} @{name}({given})"), result.type, result.lanes)

    def opaque(self, pointer: str) -> str:
        """The same address, of which LLVM does not know how it was computed. It costs no instruction."""
        self.declarations.add("declare ptr @llvm.strip.invariant.group.p0(ptr)")
        return self.assign(f"call ptr @llvm.strip.invariant.group.p0(ptr {pointer})")

    def fenced(self, value: Value) -> Value:
        """The same value; of float32, LLVM does not look at how it was computed. It costs no instruction.

        Behind shuffles: for each of them LLVM tries anew to make one of all that lead to it, which takes it longer than
        all else where there are hundreds that are as they should be.
        """
        if value.type is not F32 or value.lanes == 1:
            return value
        kind, name = value.llvm_type, f"llvm.arithmetic.fence.v{value.lanes}f32"
        self.declarations.add(f"declare {kind} @{name}({kind})")
        return Value(self.assign(f"call {kind} @{name}({value.typed})"), value.type, value.lanes)

    # Operations of the grammar ---------------------------------------------------------------------------------------

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
        """``dot2`` or ``dot4`` of words, plus ``c``."""
        a, b, c = self.aligned(a, b, c)
        return self.binary("add", self._dot_of_parts(operation, a, b), c)

    def _dot_of_parts(self, operation: str, a: Value, b: Value) -> Value:
        """The products one by one."""
        count = int(operation[-1])
        bits = 32 // count
        total: Value | None = None
        for i in range(count):
            up, down = (self.spread(Value(str(n), I32), a.lanes) for n in (32 - bits * (i + 1), 32 - bits))
            x, y = (self.binary("shl", v, up) for v in (a, b))
            unsigned = x._replace(type=U32) if count == 4 else x
            left = self._instruction("shr", unsigned, down)._replace(type=I32)
            product = self.binary("mul", left, self._instruction("shr", y, down))
            total = product if total is None else self.binary("add", total, product)
        assert total is not None
        return total

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


def suffix(value: Value) -> str:
    """The part of an intrinsic's name that tells its type: ``v16f32``, ``i64`` ..."""
    name = value.type.name.replace("u", "i") if value.type is not BOOL else "i1"
    return name if value.lanes == 1 else f"v{value.lanes}{name}"


def index_value(text: str | int) -> Value:
    """A 64-bit index operand."""
    return Value(str(text), I64)


__all__ = ["Builder", "Value", "index_value", "literal", "suffix", "vector_type"]

"""Nests as text, for people: what ``opendml explain`` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from opendml.expression.affine import format_address
from opendml.expression.ir import Expression
from opendml.expression.printer import format_together, format_values
from opendml.expression.statements import RowMargins
from opendml.loops.instructions import Instruction
from opendml.loops.nest import (
    Accumulate,
    At,
    Block,
    Body,
    Branch,
    Cut,
    Fence,
    Fill,
    Flush,
    Gather,
    Items,
    Keep,
    Keeping,
    Leaf,
    Let,
    Loop,
    Memory,
    Nest,
    Node,
    Pick,
    Points,
    Prefetch,
    Recall,
    Reduce,
    Share,
    Sort,
    Stage,
    SumInTiles,
    Tiles,
    Transpose,
    Turn,
)
from opendml.loops.nest_instructions import instructions_of
from opendml.loops.nest_integers import (
    Both,
    Condition,
    Difference,
    Either,
    End,
    Equal,
    First,
    Greatest,
    Integer,
    Least,
    Local,
    Position,
    Product,
    Quotient,
    Register,
    Start,
    Sum,
    ToBoundary,
    WholeSteps,
    Within,
)
from opendml.loops.plans import AS_THEY_STAND, Folding, Overlap, Plan, Steps


def format_nest(nest: Nest) -> str:
    """A line for every node, what is inside of it indented, memories and what holds for all of it first."""
    lines = [*map(_memory, nest.memories), *(f"scratch {row.name}: {row.type}{list(row.sizes)}" for row in nest.rows)]
    lines += [f"prefetch {tensor.name} {distance} bytes ahead" for tensor, distance in nest.ahead.items()]
    for fold, distances in nest.ahead_in_folds.items():
        axes = ", ".join(f"{axis.name} < {axis.size}" for axis in fold.axes)
        lines += [f"prefetch {tensor.name} {n} bytes ahead, reducing {axes}" for tensor, n in distances.items()]
    lines += ["loops stay as they are"] if nest.rolled else []
    lines += map(_instruction, instructions_of(nest))
    return "\n".join([*lines, *_lines(nest.body)])


def _lines(body: Body) -> list[str]:
    return [line for node in body for line in (*_planned(node), *_LINES[type(node)](node))]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _memory(memory: Memory) -> str:
    return f"{memory.space} {memory.name}: {memory.type}[{memory.size}]"


def _instruction(instruction: Instruction) -> str:
    return f"{instruction.operation} of {instruction.type} x {instruction.lanes}: {instruction.name}"


# Integers and conditions ---------------------------------------------------------------------------------------------


def format_integer(integer: Integer) -> str:
    """An integer in infix notation: a part of an axis is from ``axis.start`` to before ``axis.end``."""
    return str(integer) if isinstance(integer, int) else _INTEGERS[type(integer)](integer)


def _either(e: Either) -> str:
    lines, condition = _condition(e.condition)
    return " ".join([*lines, f"({format_integer(e.then)} if {condition} else {format_integer(e.otherwise)})"])


_INTEGERS: Final[dict[type, Callable[[Any], str]]] = {
    Local: lambda e: e.name,
    Register: lambda e: e.variable.name,
    Start: lambda e: f"{e.axis.name}.start",
    End: lambda e: f"{e.axis.name}.end",
    Sum: lambda e: f"({format_integer(e.left)} + {format_integer(e.right)})",
    Position: lambda e: e.axis.name,
    Quotient: lambda e: f"{format_integer(e.left)} // {e.right}",
    Product: lambda e: f"{format_integer(e.left)}*{e.right}",
    Greatest: lambda e: f"max({format_integer(e.left)}, {format_integer(e.right)})",
    ToBoundary: lambda e: f"to_boundary({e.tensor.name}, {e.axis.name} = {format_integer(e.first)}, {e.bytes} bytes)",
    Difference: lambda e: f"({format_integer(e.left)} - {format_integer(e.right)})",
    Least: lambda e: f"min({format_integer(e.left)}, {format_integer(e.right)})",
    Either: _either,
    WholeSteps: lambda e: f"whole_steps({format_integer(e.first)}, {format_integer(e.last)}, {e.step})",
}


def _condition(condition: Condition) -> tuple[list[str], str]:
    """Lines that give names to what occurs several times, and the condition by these names."""
    if isinstance(condition, Within):
        first, last = format_integer(condition.first), format_integer(condition.last)
        return [], f"{first} <= {format_address(condition.address)} < {last}"
    if isinstance(condition, Equal):
        return [], f"{format_integer(condition.left)} == {format_integer(condition.right)}"
    if isinstance(condition, Both):
        (lines, first), (more, second) = map(_condition, (condition.first, condition.second))
        return [*lines, *more], f"{first} and {second}"
    if isinstance(condition, First):
        return [], f"first item here of {condition.group}"
    lines, (text,) = format_together([condition])
    return lines, text


# Nodes ---------------------------------------------------------------------------------------------------------------


def _items(node: Items) -> list[str]:
    cuts = ", ".join(map(_cut, node.cuts))
    who = "by one thread" if node.serial else f"{node.count} work items, shared out among the threads"
    taken = f", {node.taken} at a time" if node.taken > 1 else ""
    pool = f", {node.pool} at the ends of shares to whoever is done first{taken}" if node.pool else ""
    look = f" (a look every {node.look})" if node.look is not None else ""
    return [f"{who}{pool}{f': {cuts}' if cuts else ''}{look}", *_indented(_lines(node.body))]


def _cut(cut: Cut) -> str:
    block = f" in blocks of {cut.block}" if cut.block is not None else ""
    return f"{cut.axis.name} < {cut.axis.size}{block}"


def _carried(node: Loop | Points | Branch) -> str:
    copies = f" ({node.copies} of each)" if node.copies > 1 else ""
    return f", carrying {', '.join(v.name for v in node.carried)}{copies}" if node.carried else ""


def _loop(node: Loop) -> list[str]:
    step = f" step {node.step}" if node.step > 1 else ""
    limit = f", not beyond {node.limit}" if node.limit is not None else ""
    bounds = f"{format_integer(node.first)}..{format_integer(node.last)}"
    unmoved = f", unmoved {node.unmoved.name}" if node.unmoved is not None else ""
    return [f"for {node.axis.name} in {bounds}{step}{limit}{unmoved}{_carried(node)}", *_indented(_lines(node.body))]


def _points(node: Points) -> list[str]:
    active = f", {node.active} of them active" if node.active is not None else ""
    points = f"0..{node.count}" if node.step == 1 else f"{node.step}*(0..{node.count})"
    return [f"{node.kind} {node.axis.name} + {points}{active}{_carried(node)}", *_indented(_lines(node.body))]


def _branch(node: Branch) -> list[str]:
    named, condition = _condition(node.condition)
    lines = [*named, f"if {condition}{_carried(node)}", *_indented(_lines(node.then))]
    return [*lines, "else", *_indented(_lines(node.otherwise))] if node.otherwise else lines


_WRITTEN: Final = {"each": "", "interleaved": "interleaved ", "past the caches": "past the caches "}


def _leaf(node: Leaf) -> list[str]:
    values: list[tuple[str, Expression]] = [
        (f"{_WRITTEN[node.written]}{store.tensor.name}@({format_address(store.address)})", store.value)
        for store in node.stores
    ]
    margins = [(store.tensor.name, store.margins) for store in node.stores if store.margins is not None]
    values += [(variable.name, value) for variable, value in zip(node.registers, node.values, strict=True)]
    lines = [*format_values(values), *(_margins(*one) for one in margins)]
    if node.own is None:
        return lines
    names, own = _condition(node.own)
    return [*names, f"only if {own}", *_indented(lines)]


def _margins(name: str, margins: RowMargins) -> str:
    around = f"{margins.before} before and {margins.behind} behind"
    return f"{name} {around} every {margins.row} along {margins.along.name} = {margins.value.value}"


# Plans ---------------------------------------------------------------------------------------------------------------


def _planned(node: Node) -> list[str]:
    """The plan of a node that evaluates expressions; a Reduce has its folds in it."""
    plan = getattr(node, "plan", AS_THEY_STAND)
    return [] if plan is AS_THEY_STAND else _plan(plan)


def _plan(plan: Plan) -> list[str]:
    choices = list(plan.choices.values())
    lines, conditions = format_together([choice.select.condition for choice in choices])
    for choice, condition in zip(choices, conditions, strict=True):
        lines.append(f"where {condition}: {_HOW[choice.how]}")
        lines += _indented([line for inner in (choice.then, choice.otherwise) for line in _plan(inner)])
    lines += [line for folding in plan.foldings.values() for line in _folding(folding, "where wanted, reduce")]
    return [*lines, *(line for folding in plan.ahead for line in _folding(folding, "reduce"))]


_HOW: Final = {
    "jump": "by a jump to the branch",
    "lanes": "both branches, each in its lanes",
    "known lanes": "both branches, each in its lanes, which are known",
    "rarely": "the first branch only if some lane takes it",
}


_GUARD: Final = {
    "jump": "jumped over at all points",
    "jumps": "jumped over at each point",
    "lanes": "taken in some lanes",
    "known lanes": "taken in some lanes, which are known",
}


_PARTIALS: Final = {
    "partials": " in lanes",
    "partials of each lane": ", each point's in lanes",
    "partials side by side": ", each point's in lanes, side by side",
}


def _folding(folding: Folding, verb: str) -> list[str]:
    """The axes of a fold in order; those that are written out are ``unrolled``."""
    fold, overlap = folding.fold, folding.overlap
    axes = ", ".join(f"{'unrolled ' if a in folding.unrolled else ''}{a.name} < {a.size}" for a in fold.axes)
    partials = f", {fold.partials} partial results{_PARTIALS[folding.how]}" if folding.how != "points" else ""
    order = "" if overlap is None else f", in the order of {_sum(overlap)}, each point's in their own"
    inner = [line for ahead in folding.ahead for line in _folding(ahead, "before, reduce")]
    inner += _steps(folding.steps, "a step")
    inner += [] if folding.rest is None else _steps(folding.rest, "the last step")
    return [f"{verb} {axes}{partials}{order}", *_indented(inner)]


def _sum(overlap: Overlap) -> str:
    return f"{overlap.step}*{overlap.axis.name} + {overlap.reach}*{overlap.tap.name}"


def _steps(steps: Steps, name: str) -> list[str]:
    lines = _plan(steps.plan)
    lines += [] if steps.guard == "always" else [f"{name} that is left out is {_GUARD[steps.guard]}"]
    return [*lines, *_plan(steps.masked)]


def _keeping(node: Keeping) -> list[str]:
    named, values = format_together([row.value for row in node.rows])
    rows = [f"{row.memory.name}[{row.axis.name}] = {value}" for row, value in zip(node.rows, values, strict=True)]
    return [*named, *(f"keeping {row} while that is folded" for row in rows), *_indented(_lines(node.body))]


def _stage(node: Stage) -> list[str]:
    origin = ", ".join(f"{axis.name} = {format_integer(position)}" for axis, position in node.origin)
    names = ", ".join(area.tensor.name for area in node.areas)
    return [f"stage {names} from {origin}", *_indented(_lines(node.body))]


def _flush(node: Flush) -> list[str]:
    runs = "".join(
        f"{format_integer(run.count)} times (every {run.pitch} to every {run.target_pitch}) " for run in node.runs
    )
    return [f"flush {node.area.tensor.name}: {runs}{format_integer(node.length)} elements"]


def _candidate(node: Fill | Gather) -> tuple[list[str], str]:
    lines, (key,) = format_together([node.key])
    return lines, f"{key}, {node.axis.name}"


def _fill(node: Fill) -> list[str]:
    named, candidate = _candidate(node)
    return [*named, f"{node.candidates.memory.name}[{node.axis.name}] = {candidate}"]


def _gather(node: Gather) -> list[str]:
    count, threshold = (variable.name for variable in node.registers)
    candidates = node.candidates
    named, candidate = _candidate(node)
    append = f"{candidates.memory.name}[{count}++] = {candidate} where the key < {threshold}"
    again = f"{count}, {threshold} = sort {candidates.wanted} of {count} {candidates.memory.name}"
    return [*named, append, f"if {count} >= {candidates.room}", f"  {again}"]


def _sort(node: Sort) -> list[str]:
    names = ", ".join(variable.name for variable in node.registers)
    candidates = node.candidates
    what = f"sort {candidates.wanted} of {format_integer(node.count)} {candidates.memory.name}"
    return [f"{names} = {what}" if names else what]


def _places(node: Recall | Keep) -> list[str]:
    place = f"{node.axis.name} - {format_integer(node.origin)}"
    return [f"{memory.name}[{place}]" for memory in node.memories]


def _recall(node: Recall) -> list[str]:
    return [f"{v.name} = {place}" for v, place in zip(node.registers, _places(node), strict=True)]


def _keep(node: Keep) -> list[str]:
    return [f"{place} = {v.name}" for v, place in zip(node.registers, _places(node), strict=True)]


def _accumulate(node: Accumulate) -> list[str]:
    named, (product,) = format_together([node.product])
    some = "" if node.numbers is None else f" where its number is {_runs(sorted(node.numbers))}"
    there = ", staying where it is" if node.stays else ""
    return [*named, f"{node.register.name} += {product}{some}{there}"]


def _runs(numbers: Sequence[int]) -> str:
    """Numbers in a row as the first and the last of each run of them."""
    runs = list[list[int]]()
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _turn(node: Turn) -> list[str]:
    return [f"{node.target.name} = {node.source.name} of {node.rows} rows, {node.lanes} lanes each, transposed"]


def _tiles(node: Tiles) -> list[str]:
    sizes = ", ".join(f"{rows}x{words}" for rows, words in node.sizes)
    return [f"tiles of {sizes} words", *_indented(_lines(node.body))]


def _sum_in_tiles(node: SumInTiles) -> list[str]:
    """Both axes of the result, then those of the sum."""
    sides = [] if node.beside is None else [(node.beside.axis, len(node.rows) * node.beside.step)]
    sides += [(node.row, sum(node.rows) if node.beside is None else node.rows[0]), (node.column, sum(node.columns))]
    ranges = ", ".join(f"{axis.name} + 0..{count}" for axis, count in sides)
    steps = ", ".join(f"{a.name} < {a.size}" + (f" step {node.depth}" if a is node.step else "") for a in node.axes)
    return [f"{node.target.name}[{ranges}] = {node.operation}, sum[{steps}]({node.by_rows} dot4 {node.by_columns})"]


def _prefetch(node: Prefetch) -> list[str]:
    why = " to store there" if node.is_stored else ""
    cache = f" to cache {node.cache}" if node.cache > 1 else ""
    return [f"prefetch {node.tensor.name}@({format_address(node.address)}){cache}{why}"]


def _share(node: Share) -> list[str]:
    return [f"{node.first.name}..{node.last.name} = this thread's share of {node.count}"]


_LINES: Final[dict[type[Node], Callable[[Any], list[str]]]] = {
    Items: _items,
    Loop: _loop,
    Points: _points,
    At: lambda node: [f"at {node.axis.name} = {format_integer(node.position)}", *_indented(_lines(node.body))],
    Share: _share,
    Let: lambda node: [f"let {node.local.name} = {format_integer(node.value)}"],
    Block: lambda node: ["block", *_indented(_lines(node.body))],
    Branch: _branch,
    Leaf: _leaf,
    Reduce: lambda _: [],  # the plan has its folds
    Transpose: lambda node: [f"transpose {e} along {node.axis.name}" for e in node.loads],
    Keeping: _keeping,
    Accumulate: _accumulate,
    Turn: _turn,
    Tiles: _tiles,
    SumInTiles: _sum_in_tiles,
    Prefetch: _prefetch,
    Recall: _recall,
    Keep: _keep,
    Stage: _stage,
    Flush: _flush,
    Fill: _fill,
    Gather: _gather,
    Sort: _sort,
    Pick: lambda node: [f"{node.register.name} = position of {node.candidates.memory.name}[{node.axis.name}]"],
    Fence: lambda _: ["fence"],
}

"""Work items: a kernel's share for one thread, and the coordinates of an item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.loops.nest import Items

RUN: Final = "{ i64, i64, i64 }"
"""What ``next_run`` of ``barrier_code`` gives: where a run of work items begins and ends, and how far ahead of the
thread's own share that is."""

Bounds = tuple[str, str]
"""The first point of a part of an axis, and the one behind its last."""


def write_items(builder: Builder, items: Items, body: Callable[[str], None], turn: str | None = None) -> None:
    """``body(item)`` for the numbers of all work items that are this thread's. ``turn``: the number of the round of a
    loop around the kernel, if there is one."""
    if items.serial:
        is_mine = builder.assign("icmp eq i64 %thread, 0")
        _write_run(builder, "0", builder.assign(f"select i1 {is_mine}, i64 {items.count}, i64 0"), items.look, body)
    elif items.pool:
        _write_pooled(builder, items, body, turn)
    else:
        _write_run(builder, *share(builder, items.count), items.look, body)


def _write_pooled(builder: Builder, items: Items, body: Callable[[str], None], turn: str | None) -> None:
    """What nobody else takes of this thread's share, then one run after the other of its own pool and of the others': a
    loop around the loop over items in a row. A thread that has no counters, %taken, has no pool: all of its share is
    its own, and every other round goes through that the other way."""
    builder.is_pooled = True
    count, kept = items.count, items.count - items.pool
    has_no_pool = builder.assign("icmp eq ptr %taken, null")
    first, last = share(builder, count)
    size = builder.assign(f"sub nsw i64 {last}, {first}")
    mine = builder.assign(f"udiv i64 {builder.assign(f'mul i64 {size}, {kept}')}, {count}")
    behind = builder.assign(f"add nsw i64 {first}, {mine}")
    behind = builder.assign(f"select i1 {has_no_pool}, i64 {last}, i64 {behind}")
    if turn is not None:
        body = _to_and_fro(builder, body, (first, last), has_no_pool, turn)
    before = builder.block
    again, take, done = builder.fresh("again"), builder.fresh("take"), builder.fresh("done")
    builder.jump(again)
    builder.begin(again)
    state = [f"%{builder.fresh(name)}" for name in ("start", "end", "ahead")]
    slot = len(builder.lines)
    builder.lines += [""] * len(state)
    _write_run(builder, state[0], state[1], items.look, body)
    builder.line(f"br i1 {has_no_pool}, label %{done}, label %{take}")
    builder.begin(take)
    numbers = f"i64 {count}, i64 {kept}, i64 {items.taken}, i64 {state[2]}"
    run = builder.assign(f"call {RUN} @next_run(ptr %taken, i64 %thread, i64 %threads, {numbers})")
    following = [builder.assign(f"extractvalue {RUN} {run}, {number}") for number in range(len(state))]
    is_there = builder.assign(f"icmp slt i64 {following[0]}, {following[1]}")
    builder.line(f"br i1 {is_there}, label %{again}, label %{done}")
    for number, (name, value, next_value) in enumerate(zip(state, (first, behind, "0"), following, strict=True), slot):
        builder.lines[number] = f"  {name} = phi i64 [ {value}, %{before} ], [ {next_value}, %{take} ]"
    builder.begin(done)


def _to_and_fro(
    builder: Builder, body: Callable[[str], None], share: Bounds, has_no_pool: str, turn: str
) -> Callable[[str], None]:
    """Odd rounds begin with the item that the last one ended with: what of it is still in the cache is there again,
    where a share that is a little too large for the cache, gone through always one way, would find nothing."""
    is_odd = builder.assign(f"trunc i64 {turn} to i1")
    is_turned = builder.assign(f"and i1 {is_odd}, {has_no_pool}")
    ends = builder.assign(f"sub nsw i64 {builder.assign(f'add nsw i64 {share[0]}, {share[1]}')}, 1")

    def turned(position: str) -> None:
        opposite = builder.assign(f"sub nsw i64 {ends}, {position}")
        body(builder.assign(f"select i1 {is_turned}, i64 {opposite}, i64 {position}"))

    return turned


def _write_run(builder: Builder, first: str, last: str, look: int | None, body: Callable[[str], None]) -> None:
    """Items in a row."""

    def one(position: str, _: list[Value]) -> list[Value]:
        body(position)
        return []

    if look is None:
        builder.loop(first, last, 1, [], one)
        return

    def several(position: str, _: list[Value]) -> list[Value]:
        end = smaller(builder, builder.assign(f"add nsw i64 {position}, {look}"), last)
        goes_on = builder.assign("call i1 @go_on(ptr %control)")
        builder.loop(position, builder.assign(f"select i1 {goes_on}, i64 {end}, i64 {position}"), 1, [], one)
        return []

    builder.is_controlled = True
    builder.loop(first, last, look, [], several)


def share(builder: Builder, count: int | str, thread: str = "%thread") -> Bounds:
    """A thread's share of ``count`` things in a row."""
    start = builder.assign(f"udiv i64 {builder.assign(f'mul i64 {thread}, {count}')}, %threads")
    after = builder.assign(f"add i64 {thread}, 1")
    return start, builder.assign(f"udiv i64 {builder.assign(f'mul i64 {after}, {count}')}, %threads")


def decoded(builder: Builder, item: str, sizes: Sequence[int]) -> list[str]:
    """The coordinates of a work item, slowest first."""
    result: list[str] = []
    rest = item
    for size in reversed(sizes[1:]):
        result.append(builder.assign(f"urem i64 {rest}, {size}"))
        rest = builder.assign(f"udiv i64 {rest}, {size}")
    return [rest, *reversed(result)] if sizes else []


def block_bounds(builder: Builder, number: str, block: int, size: int, outer: Bounds | None = None) -> Bounds:
    """Where the block of a number begins and ends on an axis of ``size``, or in an ``outer`` block of that size."""
    if block >= size:
        return outer or ("0", str(size))
    start = builder.assign(f"mul nsw i64 {number}, {block}")
    if outer is not None:
        start = builder.assign(f"add nsw i64 {start}, {outer[0]}")
    end = builder.assign(f"add nsw i64 {start}, {block}")
    if outer is None and size % block == 0:
        return start, end
    limit = str(size) if outer is None else outer[1]
    inside = builder.assign(f"icmp slt i64 {end}, {limit}")
    return start, builder.assign(f"select i1 {inside}, i64 {end}, i64 {limit}")


def smaller(builder: Builder, name: str, bound: str | int) -> str:
    """The smaller one of two indices."""
    less = builder.assign(f"icmp slt i64 {name}, {bound}")
    return builder.assign(f"select i1 {less}, i64 {name}, i64 {bound}")

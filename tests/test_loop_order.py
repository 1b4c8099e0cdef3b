"""The order in which kernels go through axes: folds are computed once, wherever what they are for lies in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from nest_running import check_on_hosts

from opendml import operators
from opendml.description.enums import ConvolutionDirection, ConvolutionMode
from opendml.description.tensor import TensorDesc, packed_strides
from opendml.expression.element_types import F32
from opendml.expression.folds import partials_for, sum_of
from opendml.expression.ir import Axis, Expression, Tensor, constant, grid, index, indices, load, select, unary
from opendml.expression.statements import Compute, Definition, Store
from opendml.loops.nest import Block, Body, Items, Loop, Nest, Reduce
from opendml.targets.cpu import schedule
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.nests.compute import compute_nest
from opendml.targets.cpu.refine.refining import refine
from opendml.targets.cpu.target import host_target


def normalized(channels: int, sizes: Sequence[int], order: Sequence[int], gap: int = 2) -> Definition:
    """Channels, centred and divided by a deviation, in rows of memory with gaps between them; their dimensions lie from
    the outermost to the innermost one in an ``order``."""
    strides, step = [0] * 3, 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= (channels, *sizes)[dimension] + (gap if step == 1 else 0)
    source = Tensor("x", F32, (channels, *sizes), packed_strides((channels, *sizes)), "input")
    result = Tensor("y", F32, (channels, *sizes), tuple(strides), "output")
    channel, *_ = axes = grid([channels, *sizes])

    def mean(value: Expression, along: Sequence[Axis]) -> Expression:
        return sum_of(along, value, partials=partials_for(along[-1])) / constant(sizes[0] * sizes[1], F32)

    first, second = grid(sizes, "rs"), grid(sizes, "tu")
    centre = mean(load(source, (index(channel), *indices(first))), first)
    centred = load(source, (index(channel), *indices(second))) - centre
    value = load(source, indices(axes)) - centre
    value = value / unary("sqrt", mean(centred * centred, second) + constant(1, F32))
    value = select(value >= constant(0, F32), value, constant(0, F32))
    return Definition((source,), (result,), (Compute(axes, (Store(result, indices(axes), value),)),))


def scheduled(definition: Definition) -> ComputeKernel:
    (compute,) = definition.statements
    assert isinstance(compute, Compute)
    return schedule.schedule_compute(compute, host_target(), in_place=False)


def nest_of(definition: Definition) -> Nest:
    return compute_nest(scheduled(definition), host_target(), ())


def loops_around_folds(body: Body, around: int = 0) -> list[int]:
    """In how many loops each Reduce is, but for work items."""
    found = list[int]()
    for node in body:
        if isinstance(node, Reduce):
            found.append(around)
        elif isinstance(node, Loop | Block | Items):
            found += loops_around_folds(node.body, around + isinstance(node, Loop))
    return found


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize(("channels", "sizes"), [(3, (2, 19)), (5, (3, 8))])
def test_bits(channels: int, sizes: tuple[int, int], order: tuple[int, int, int]) -> None:
    check_on_hosts(normalized(channels, sizes, order))


def test_folds_of_channels_are_computed_once_whose_rows_lie_between_those_of_others() -> None:
    definition = normalized(64, (64, 32), (1, 0, 2))
    kernel = scheduled(definition)
    assert [axis.size for axis in kernel.shared] == [64] and [axis.size for axis in kernel.inner] == [64]
    (depth,) = loops_around_folds(nest_of(definition).body)
    assert depth == 0


def test_work_items_are_whole_channels_where_these_are_few() -> None:
    """More would compute the folds once more each."""
    kernel = scheduled(normalized(2, (64, 32), (0, 1, 2)))
    assert [axis.size for axis in kernel.shared] == [2] and [axis.size for axis in kernel.inner] == [64]


def test_short_folds_leave_the_order_as_memory_has_it() -> None:
    """What reads and writes far apart would cost more than they do."""
    row, column, point = axes = grid([6, 5, 24])
    (step,) = grid([4], "r")
    source = Tensor("x", F32, (5, 4), packed_strides((5, 4)), "input")
    result = Tensor("y", F32, (6, 5, 24), packed_strides((6, 5, 24)), "output")
    total = sum_of((step,), load(source, (index(column), index(step))))
    value = total * index_value(row, point)
    definition = Definition((source,), (result,), (Compute(axes, (Store(result, indices(axes), value),)),))
    assert scheduled(definition).shared[0] is row
    check_on_hosts(definition)


def index_value(*axes: Axis) -> Expression:
    """A number of its own at each of some places."""
    total: Expression = constant(1, F32)
    for axis in axes:
        total = total + select(index(axis) >= constant(3, index(axis).type), constant(2, F32), constant(-1, F32))
    return total


def depthwise(channels: int, size: int, *, has_channels_last: bool) -> ComputeKernel:
    """The kernel of a 3x3 convolution of each channel, whose filter is fixed."""
    strides = [size * size * channels, 1, size * channels, channels] if has_channels_last else None
    image = TensorDesc("float32", [1, channels, size, size], strides=strides)
    desc = operators.Convolution(
        input_tensor=image,
        filter_tensor=TensorDesc("float32", [channels, 1, 3, 3]),
        output_tensor=image,
        mode=ConvolutionMode.CROSS_CORRELATION,
        direction=ConvolutionDirection.FORWARD,
        strides=(1, 1),
        dilations=(1, 1),
        start_padding=(1, 1),
        end_padding=(1, 1),
        output_padding=(0, 0),
        group_count=channels,
    )
    definition = refine(desc.define(), host_target())
    compute = definition.statements[-1]
    assert isinstance(compute, Compute)
    return schedule.schedule_compute(compute, host_target(), in_place=False)


def test_threads_have_parts_of_an_image_as_sums_of_its_points_do() -> None:
    """Some rows of all planes; where the channels of a point lie side by side, whole rows of points."""
    planes = depthwise(32, 112, has_channels_last=False)
    assert planes.rows is not None and planes.rows_first and planes.rows.block < 112
    points = depthwise(144, 28, has_channels_last=True)
    assert points.rows is not None and points.rows.block < 28 and not points.rows_first
    (row,) = points.shared
    (items,) = (n for n in compute_nest(points, host_target(), ()).body if isinstance(n, Items))
    assert [cut.axis for cut in items.cuts] == [row, points.rows.axis]

"""Random descriptors of gathering, scattering and selection."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from random_operators.parts import (
    LENGTHS,
    Build,
    draw_input,
    draw_length,
    draw_output,
    draw_rank,
    draw_sizes,
    draw_type,
    limited,
    support_of,
)


def _gather(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, rank = draw_type(draw, cls), draw_rank(draw, cls)
    sizes = draw_sizes(draw, rank, 300)
    index_dimensions = draw(st.integers(0, rank))
    spare = max(index_dimensions - 1, 0)
    sizes[:spare] = [1] * len(sizes[:spare])
    axis = draw(st.integers(min(spare, rank - 1), rank - 1))
    chosen = [1] * (rank - index_dimensions) + (draw_sizes(draw, index_dimensions, 30) if index_dimensions else [])
    gathered = [*sizes[:axis], *chosen[rank - index_dimensions :], *sizes[axis + 1 :]]
    target = [1] * (rank - len(gathered)) + gathered[max(len(gathered) - rank, 0) :]
    index_type = draw(st.sampled_from(support_of(cls, "indices_tensor")[2]))
    tensors = {
        "input_tensor": draw_input(draw, data_type, sizes),
        "indices_tensor": draw_input(draw, index_type, chosen),
        "output_tensor": draw_output(draw, data_type, target),
    }
    return cls(**tensors, axis=axis, index_dimensions=index_dimensions)


def _gather_elements(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """And SCATTER_ELEMENTS, with updates where the other one has an output."""
    data_type, rank = draw_type(draw, cls), draw_rank(draw, cls)
    whole = draw_sizes(draw, rank, 400)
    axis = draw(st.integers(0, rank - 1))
    part = limited([draw(st.sampled_from(LENGTHS)) if d == axis else n for d, n in enumerate(whole)], 900)
    whole = [n if d == axis else part[d] for d, n in enumerate(whole)]
    tensors = {"indices_tensor": draw_input(draw, draw(st.sampled_from(support_of(cls, "indices_tensor")[2])), part)}
    return cls(**tensors, **_whole_and_part(draw, cls, data_type, whole, part), axis=axis)


def _whole_and_part(
    draw: st.DrawFn, cls: type[Operator], data_type: TensorDataType, whole: list[int], part: list[int]
) -> dict[str, TensorDesc]:
    """An input and what is gathered from it, or is scattered to a copy of it."""
    tensors = {"input_tensor": draw_input(draw, data_type, whole)}
    if "updates_tensor" not in cls.fields:
        return tensors | {"output_tensor": draw_output(draw, data_type, part)}
    return tensors | {
        "updates_tensor": draw_input(draw, data_type, part),
        "output_tensor": draw_output(draw, data_type, whole),
    }


def _index_tuples(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """GATHER_ND and SCATTER_ND."""
    data_type, rank = draw_type(draw, cls), draw_rank(draw, cls)
    batches = draw(st.integers(0, min(2, rank - 1))) if "batch_dimension_count" in cls.fields else 0
    count = draw(st.integers(batches + 1, rank))
    tuple_size = draw(st.integers(1, count - batches))
    indices_count = draw(st.integers(batches + 1, rank - max(count - batches - tuple_size - 1, 0)))
    whole = draw_sizes(draw, count, 400)
    indices = [*whole[:batches], *draw_sizes(draw, indices_count - batches, 60)[:-1], tuple_size]
    part = limited([*indices[:-1], *whole[batches + tuple_size :]], 900)
    whole[:batches], whole[batches + tuple_size :] = part[:batches], part[indices_count - 1 :]
    indices[:-1] = part[: indices_count - 1]
    whole, indices, part = ([1] * (rank - len(sizes)) + sizes for sizes in (whole, indices, part))
    fields = {"input_dimension_count": count, "indices_dimension_count": indices_count}
    if "batch_dimension_count" in cls.fields:
        fields["batch_dimension_count"] = batches
    tensors = {"indices_tensor": draw_input(draw, draw(st.sampled_from(support_of(cls, "indices_tensor")[2])), indices)}
    return cls(**tensors, **_whole_and_part(draw, cls, data_type, whole, part), **fields)


def _one_hot(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, target = draw_type(draw, cls, "output_tensor"), draw_sizes(draw, draw_rank(draw, cls, "output_tensor"))
    axis = draw(st.integers(0, len(target) - 1))
    lines = [1 if d == axis else n for d, n in enumerate(target)]
    values = [draw(st.integers(1, 3)) for _ in target]
    values[draw(st.integers(0, len(target) - 1))] = 2
    return cls(
        indices_tensor=draw_input(draw, draw(st.sampled_from(support_of(cls, "indices_tensor")[2])), lines),
        values_tensor=draw_input(draw, data_type, values),
        output_tensor=draw_output(draw, data_type, target),
        axis=axis,
    )


def _top_k(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, sizes = draw_type(draw, cls), draw_sizes(draw, draw_rank(draw, cls))
    axis = draw(st.integers(0, len(sizes) - 1))
    k = min(draw_length(draw, LENGTHS), sizes[axis])
    wanted = [*sizes[:axis], k, *sizes[axis + 1 :]]
    direction = {"axis_direction": draw(st.sampled_from(("INCREASING", "DECREASING")))}
    return cls(
        input_tensor=draw_input(draw, data_type, sizes),
        output_value_tensor=draw_output(draw, data_type, wanted),
        output_index_tensor=draw_output(draw, draw_type(draw, cls, "output_index_tensor"), wanted),
        axis=axis,
        k=k,
        **(direction if "axis_direction" in cls.fields else {}),
    )


def _nonzero(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes = draw_sizes(draw, draw_rank(draw, cls))
    rank = draw_rank(draw, cls, "output_coordinates_tensor")
    effective = len(sizes) - next((i for i, size in enumerate(sizes) if size > 1), len(sizes) - 1)
    kept = draw(st.integers(effective, len(sizes)))
    coordinates = [1] * (rank - 2) + [math.prod(sizes), kept]
    return cls(
        input_tensor=draw_input(draw, draw_type(draw, cls), sizes),
        output_count_tensor=draw_output(draw, TensorDataType.UINT32, [1] * draw_rank(draw, cls, "output_count_tensor")),
        output_coordinates_tensor=draw_output(draw, TensorDataType.UINT32, coordinates),
    )


BUILDERS: dict[str, Build] = {
    "GATHER": _gather,
    "GATHER_ELEMENTS SCATTER_ELEMENTS": _gather_elements,
    "GATHER_ND GATHER_ND1 SCATTER_ND": _index_tuples,
    "ONE_HOT": _one_hot,
    "NONZERO_COORDINATES": _nonzero,
    "TOP_K TOP_K1": _top_k,
}

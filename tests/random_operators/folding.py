"""Random descriptors of reductions and running sums."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, ReduceFunction
from opendml.description.validation import support_at
from random_operators.parts import (
    Build,
    draw_axes,
    draw_input,
    draw_output,
    draw_pair,
    draw_sizes,
    limited,
)


def _cumulative(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    pair = draw_pair(draw, cls)
    exclusive = next(name for name in cls.fields if name.startswith("has_exclusive"))
    axis = draw(st.integers(0, pair["output_tensor"].rank - 1))
    direction = draw(st.sampled_from(("INCREASING", "DECREASING")))
    return cls(**pair, axis=axis, axis_direction=direction, **{exclusive: draw(st.booleans())})


def _extreme_position(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    fields = {name: value for name, value in _reduction(draw, cls.type.name).items() if name != "function"}
    return cls(**fields, axis_direction=draw(st.sampled_from(("INCREASING", "DECREASING"))))


def _reduce(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    return cls(**_reduction(draw, draw(st.sampled_from(ReduceFunction)).name))


def _reduction(draw: st.DrawFn, function_name: str) -> dict[str, Any]:
    function = ReduceFunction[function_name]
    tables = op.Reduce.support_variants
    table = next(table for names, table in tables.items() if function.name in names.split())
    lowest, highest, data_types = support_at(table, "input_tensor", FeatureLevel.LEVEL_6_4) or (1, 1, ())
    rank = draw(st.integers(lowest, highest))
    large = draw(st.integers(0, 15)) == 0
    sizes = draw_sizes(draw, rank)
    if large:
        sizes = draw(st.permutations(limited([*sizes[:-1], draw(st.integers(30000, 40000))], 40000)))
    axes = draw_axes(draw, rank, 0)
    data_type = draw(st.sampled_from(data_types))
    output_type = data_type
    if function.name in ("ARGMIN", "ARGMAX"):
        found = support_at(table, "output_tensor", FeatureLevel.LEVEL_6_4)
        assert found is not None
        output_type = draw(st.sampled_from(found.data_types))
    target = draw_output(draw, output_type, [1 if d in axes else n for d, n in enumerate(sizes)])
    source = draw_input(draw, data_type, sizes)
    return {"function": function, "input_tensor": source, "output_tensor": target, "axes": axes}


BUILDERS: dict[str, Build] = {
    "ARGMIN ARGMAX": _extreme_position,
    "CUMULATIVE_SUMMATION CUMULATIVE_PRODUCT": _cumulative,
    "REDUCE": _reduce,
}

"""A small model in DxDispatch's format, and what hypothesis makes of it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

ADD: dict[str, Any] = {
    "resources": {
        "A": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3]},
        "B": {"initialValuesDataType": "FLOAT32", "initialValues": [5, 8, -5]},
        "Out": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 3, "value": 0}},
    },
    "dispatchables": {
        "add": {
            "type": "DML_OPERATOR_ELEMENT_WISE_ADD",
            "desc": {
                "ATensor": {"DataType": "FLOAT32", "Sizes": [3]},
                "BTensor": {"DataType": "FLOAT32", "Sizes": [3]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
            },
        }
    },
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "add",
            "bindings": {"ATensor": "A", "BTensor": "B", "OutputTensor": "Out"},
        },
        {"type": "print", "resource": "Out"},
    ],
}


def changed(path: str, value: Any, model: dict[str, Any] = ADD) -> dict[str, Any]:
    """A copy of a model with the value at a slash-separated path replaced."""
    model = copy.deepcopy(model)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place: Any = model
    for part in parents:
        place = place[part]
    place[last] = value
    return model


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=4), children, max_size=4),
    max_leaves=12,
)


NUMBERS = [0, -1, 1, 3, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 64, 10**30, 0.5, 1e300, -0.0]
hostile_values: st.SearchStrategy[Any] = (
    st.sampled_from([*NUMBERS, None, True, "", "A", "add", "FLOAT32", "nan", "\ud800", "..", [], {}, {"name": "A"}])
    | json_values
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in _places(child, (*path, key)))]


@st.composite
def mutated_models(draw: st.DrawFn) -> Any:
    """A valid model with values replaced, removed, repeated or swapped."""
    root = {"root": copy.deepcopy(ADD)}
    if draw(st.booleans()):
        root["root"]["dispatchables"]["add"]["desc"]["ATensor"]["Strides"] = [1]
        root["root"]["resources"]["A"]["initialValues"] = {"valueCount": 5, "valueStart": 1, "valueDelta": 2}
        root["root"]["commands"][0]["bindings"]["BTensor"] = {"name": "B", "elementOffset": 0, "elementCount": 3}
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.sampled_from(_places(root)[1:]))
        parent: Any = root
        for key in place[:-1]:
            parent = parent[key]
        action = draw(st.sampled_from(["replace", "replace", "remove", "move"]))
        if action == "replace" or len(place) == 1:
            # A copy: what was drawn may be changed below, and must not come to contain itself.
            parent[place[-1]] = copy.deepcopy(draw(hostile_values))
        elif action == "remove":
            del parent[place[-1]]
        else:
            value = parent[place[-1]]
            parent[place[-1]] = (
                [value, copy.deepcopy(value)] if isinstance(parent, list) else {draw(st.text(max_size=3)): value}
            )
    return root["root"]

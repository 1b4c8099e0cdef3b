"""Random valid descriptors of the whole catalogue: interpreted, compiled, between guard pages, by 1, 2 and 7 threads.

``OPENDML_FUZZ_EXAMPLES`` is the number of descriptors an operator (a few by default; hundreds find more).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from execution import assert_same_values, compile_in_parallel, random_array, run_operator, seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_descriptors import descriptors, is_drawn

from opendml.descriptors import Operator
from opendml.enums import OperatorType
from opendml.operators import implemented
from opendml.rules import validate

EXAMPLES = int(os.environ.get("OPENDML_FUZZ_EXAMPLES", "4"))

fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True, scope="module")
def no_cache() -> Iterator[None]:
    """Code that is used once is not worth keeping."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENDML_CACHE", "0")
        yield


def test_every_operator_is_drawn() -> None:
    assert [operator_type.name for operator_type in implemented() if not is_drawn(operator_type)] == []


DRAWN = [operator_type for operator_type in implemented() if is_drawn(operator_type)]


@pytest.mark.parametrize("operator_type", DRAWN, ids=lambda operator_type: operator_type.name)
@fuzz
@given(data=st.data(), seed=seeds)
def test_compiled_is_interpreted(operator_type: OperatorType, data: st.DataObject, seed: int) -> None:
    desc = data.draw(descriptors(operator_type))
    arrays = [None if t is None else random_array(t, seed + number) for number, (_, t) in enumerate(desc.inputs())]
    run_operator(desc, arrays)



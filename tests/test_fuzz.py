"""Random valid descriptors of the whole catalogue: interpreted, compiled, between guard pages, by 1, 2 and 7 threads.

``OPENDML_FUZZ_EXAMPLES`` is the number of descriptors an operator (a few by default; hundreds find more).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from execution import random_array, run_operator, seeds
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_descriptors import descriptors, is_drawn

from opendml.device import compile_operator
from opendml.enums import OperatorType
from opendml.operators import implemented
from opendml.program import generate
from opendml.rules import validate
from opendml.runtime.host import host_target

EXAMPLES = int(os.environ.get("OPENDML_FUZZ_EXAMPLES", "4"))

fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
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




@pytest.mark.parametrize("operator_type", DRAWN, ids=lambda operator_type: operator_type.name)
@fuzz
@given(data=st.data())
def test_the_largest_compile_as_quickly(operator_type: OperatorType, data: st.DataObject) -> None:
    """Whatever is valid compiles; how much code it is does not depend on sizes and strides."""
    desc = data.draw(descriptors(operator_type, huge=True))
    assume(not validate(desc))
    start = time.thread_time()
    code = generate(desc.define(), host_target(), in_place=desc.in_place)
    compile_operator(desc, thread_count=2)
    assert time.thread_time() - start < 10
    assert len(code.text) < 2_000_000

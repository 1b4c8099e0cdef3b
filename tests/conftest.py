"""The usual run tries a share of what is tried over and over (``properties.py``). Programs that threads run together
are those of ``team_programs.py``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
from properties import MANY, SHARE_OF_MANY, some
from team_programs import EMPTY, HOLD, LATE, LATE_BY_COUNT, NEIGHBOURS, TURNS, TURNS_BY_COUNT, loaded

from opendml.llvm.native import LoadedObject


@pytest.fixture(scope="module")
def no_cache() -> Iterator[None]:
    """Code that is used once is not worth keeping."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENDML_CACHE", "0")
        yield


@pytest.fixture(scope="session")
def empty_program() -> LoadedObject:
    return loaded(EMPTY)


@pytest.fixture(scope="session")
def neighbours_program() -> LoadedObject:
    return loaded(NEIGHBOURS)


@pytest.fixture(scope="session")
def late_program() -> LoadedObject:
    return loaded(LATE)


@pytest.fixture(scope="session")
def late_by_count_program() -> LoadedObject:
    return loaded(LATE_BY_COUNT)


@pytest.fixture(scope="session")
def turns_by_count_program() -> LoadedObject:
    return loaded(TURNS_BY_COUNT)


@pytest.fixture(scope="session")
def turns_program() -> LoadedObject:
    return loaded(TURNS)


@pytest.fixture(scope="session")
def hold_program() -> LoadedObject:
    return loaded(HOLD)


def pytest_configure(config: pytest.Config) -> None:
    """Says what the marks mean."""
    config.addinivalue_line("markers", "sampled: of its many cases, the usual run tries a share (OPENDML_TEST_SHARE)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the cases of tests marked ``sampled`` that are not of the share, and of other tests with many cases
    most, unless all are to be tried."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for of_test in cases.values():
        if of_test[0].get_closest_marker("sampled"):
            left_out |= set(of_test) - set(some(of_test))
        elif len(of_test) > MANY:
            left_out |= set(of_test) - set(some(of_test, SHARE_OF_MANY))
    if left_out:
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
        items[:] = [item for item in items if item not in left_out]

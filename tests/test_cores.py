"""Processors that are parts of one core."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from opendml.llvm.cores import cores_in

NEW, OLD = "core_cpus_list", "thread_siblings_list"
APART = ("0,4", "1,5", "2,6", "3,7") * 2
"""The processors of a core are half of their number apart."""


@pytest.mark.parametrize(
    ("lists", "active", "name", "processors", "expected"),
    [
        (APART, "1", NEW, range(8), 4),
        (APART, "1", OLD, range(8), 4),
        (APART, "1", NEW, [0, 4, 5], 2),
        (APART, "0", NEW, [0, 4, 5], 3),
        (("0-1", "0-1", "2-3", "2-3"), "1", NEW, range(4), 2),
        (("0-3",) * 4, "", NEW, range(4), 1),
        (("0-1,4-5", "0-1,4-5", "2-3", "2-3", "0-1,4-5", "0-1,4-5"), "1", NEW, range(6), 2),
        (("0", "1", "2"), "1", NEW, range(3), 3),
        (("0-1", "0-1"), "1", NEW, range(4), 3),
        (("nonsense", "1-", "-2", "3-4-5", "", ","), "1", NEW, range(6), 6),
        (("0-99999999999999999999",) * 3, "1", NEW, range(3), 1),
    ],
)
def test_cores(
    lists: tuple[str, ...], active: str, name: str, processors: Iterable[int], expected: int, tmp_path: Path
) -> None:
    """What each processor's file says, from number 0 on."""
    folder = tmp_path / "sys/devices/system/cpu"
    for number, text in enumerate(lists):
        (folder / f"cpu{number}/topology").mkdir(parents=True)
        (folder / f"cpu{number}/topology" / name).write_text(text + "\n")
    (folder / "smt").mkdir()
    (folder / "smt/active").write_text(active)
    assert cores_in(tmp_path, frozenset(processors)) == expected


def test_a_system_that_tells_nothing_has_a_core_for_each_processor(tmp_path: Path) -> None:
    assert cores_in(tmp_path, frozenset({2, 3, 7})) == 3

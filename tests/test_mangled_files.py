"""Mangled files of models, graphs and descriptors: only the package's own errors, work and memory in proportion to the
file. ``tools/fuzz_files.py`` reads tens of thousands of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from mangled_files import LARGEST, Spent, excess, mangled, originals, read_all

FILES, BATCHES = 80, 4


@pytest.fixture
def traced() -> Iterator[None]:
    """Memory is traced."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_originals_are_read(tmp_path: Path, traced: None) -> None:
    assert len(originals()) > 100
    for data in originals()[:20]:
        assert [excess(one, len(data)) for one in read_all(data, tmp_path)] == [""] * 3


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mangled_files_are_read_or_refused(batch: int, tmp_path: Path, traced: None) -> None:
    for number in range(batch, FILES, BATCHES):
        data = mangled(number)
        assert [excess(one, len(data)) for one in read_all(data, tmp_path)] == [""] * 3, number


def test_files_are_mangled_again_alike() -> None:
    files = [mangled(number) for number in range(40)]
    assert files == [mangled(number) for number in range(40)]
    assert len({*files}) > 35
    assert len({*files} & {*originals()}) < 5
    assert max(map(len, files)) <= LARGEST


def test_what_is_too_much_is_seen() -> None:
    assert excess(Spent("load", 10, 10), 100) == ""
    assert "10000000 calls" in excess(Spent("load", 10**7, 10), 100)
    assert "memory" in excess(Spent("load", 10, 10**8), 100)

"""No test judges by a clock: on a busy machine it would fail, and on a fast one miss what it is for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CLOCKS = {"perf_counter", "process_time", "thread_time", "monotonic", "perf_counter_ns", "timeit", "time_ns"}


def clocks(text: str) -> set[str]:
    """The clocks that a file of Python looks at."""
    found = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    found |= {
        alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return found & CLOCKS | {"time.time" for _ in range("time.time(" in text)}


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_test_looks_at_a_clock(path: Path) -> None:
    if path != Path(__file__):
        assert clocks(path.read_text("utf-8")) == set()


def test_clocks_are_seen() -> None:
    for text in ("import time\nassert time.thread_time() < 1", "from time import perf_counter", "x = time.time()"):
        assert clocks(text)

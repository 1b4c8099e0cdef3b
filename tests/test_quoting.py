"""Quotations in messages: cut, on one line, never an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml.description.quoting import QUOTED_LENGTH, cut, listed, printable, quoted


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Steering:
    def __repr__(self) -> str:
        return "\x1b[31m\n" * 1000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Sizes", "'Sizes'"),
        ("it's", '"it\'s"'),
        ("\ud800", "'\\ud800'"),
        (7, "7"),
        (-(10**30), str(-(10**30))),
        (1 << 400, "an integer of 401 bits"),
        ([1, [2, 1 << 400]], "[1, [2, an integer of 401 bits]]"),
        (Unshowable(), "<Unshowable>"),
        (np.zeros((1000, 2)), "<array of float64 [1000, 2]>"),
    ],
)
def test_quoted(value: Any, expected: str) -> None:
    assert quoted(value) == expected


@given(st.recursive(st.text() | st.binary() | st.integers() | st.floats(), lambda x: st.lists(x) | st.tuples(x, x)))
@examples(60)
def test_quotations_are_short_and_printable(value: Any) -> None:
    for one in (value, [value] * 50, {str(value): value}):
        text = quoted(one)
        assert len(text) <= 2 * QUOTED_LENGTH
        assert text.isprintable()


def test_long_values_are_cut() -> None:
    for value in ("x" * 10_000, "\n" * 10_000, b"x" * 10_000, list(range(10_000)), Steering(), {1: "x" * 10_000}):
        assert len(quoted(value)) <= QUOTED_LENGTH + 1
        assert "..." in quoted(value)
        assert quoted(value).isprintable()
    assert cut("x" * 100, 10) == "xxxxxxx..."
    assert listed(["a", "b"]) == "a, b"
    assert listed([]) == "none"
    assert listed(map(str, range(100)), limit=3) == "0, 1, 2, ..."
    assert listed(list("abcde"), limit=3) == "a, b, c, ... (2 more)"
    assert listed(["x" * 1000, "a\nb"]) == f"{'x' * 77}..., 'a\\nb'"
    assert printable("a\x1b[0m\nb") == "a\\x1b[0m\nb"

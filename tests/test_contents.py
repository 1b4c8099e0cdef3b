"""Contents of constants: each has one number, however many of them are alike."""

from __future__ import annotations

import numpy as np

from opendml.building import contents
from opendml.building.contents import LONG, Bytes, Contents


def test_equal_contents_have_one_number() -> None:
    random = np.random.default_rng(3)
    found = Contents()
    short, long = random.bytes(100), random.bytes(3 * LONG)
    given: list[Bytes | bytearray] = [
        short,
        long,
        memoryview(short),
        bytearray(long),
        b"",
        random.bytes(LONG),
        long[:-1],
        long + b"\0",
        long,
    ]
    numbers = [found.number_of(bytes(one) if isinstance(one, bytearray) else one) for one in given]
    assert numbers == [0, 1, 0, 1, 2, 3, 4, 5, 1]
    assert [bytes(one) for one in found] == [short, long, b"", given[5], given[6], given[7]]


def test_contents_with_the_same_sample() -> None:
    """Zeros but for one byte, which no sample has."""
    size = LONG + 12
    zeros = bytes(size)
    others = [b"%s\1%s" % (bytes(place), bytes(size - 1 - place)) for place in (70, 71, 5000)]
    assert len({contents._sample(one) for one in (zeros, *others)}) == 1
    found = Contents()
    given: list[Bytes] = [
        others[0],
        zeros,
        others[1],
        memoryview(others[0]),
        others[2],
        bytes(size),
        memoryview(others[2]),
    ]
    assert [found.number_of(one) for one in given] == [0, 1, 2, 0, 3, 1, 3]
    assert list(found) == [others[0], zeros, others[1], others[2]]


def test_what_is_like_nothing_else_is_not_read() -> None:
    class Watched(bytes):
        def __hash__(self) -> int:
            raise AssertionError("it was read as a whole")

    found = Contents()
    for n in range(5):
        assert found.number_of(Watched(bytes([n]) * (LONG + n % 2))) == n

"""All rows that there are, in the order of the page, and those that a pattern chooses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.cases import Case, Growth, all_cases, growths
from benchmarks.convolution_cases import convolution_cases
from benchmarks.function_cases import function_cases
from benchmarks.indexed_cases import indexed_cases
from benchmarks.matrix_cases import matrix_cases
from benchmarks.networks import Network, matches, networks
from benchmarks.quantized_cases import quantized_cases
from benchmarks.runs import COMPILATION, GROWTH, SMALL
from benchmarks.special_cases import special_cases
from benchmarks.transposition_cases import transposition_cases

_CASES: Final = (
    all_cases,
    transposition_cases,
    convolution_cases,
    matrix_cases,
    quantized_cases,
    indexed_cases,
    special_cases,
    function_cases,
)


def sections() -> dict[str, list[Case]]:
    """All cases by the sections that they stand in."""
    found: dict[str, list[Case]] = {}
    for cases in _CASES:
        for case in cases():
            found.setdefault(case.group, []).append(case)
    return found


@dataclass(frozen=True)
class Selection:
    """What a run measures."""

    sections: dict[str, list[Case]]
    networks: list[Network]
    with_small: bool
    with_compilation: bool
    growths: list[Growth]

    @property
    def titles(self) -> Iterator[str]:
        """Of all that is chosen."""
        for cases in self.sections.values():
            yield from (case.title for case in cases)
        yield from (network.title for network in self.networks)
        yield from (SMALL for _ in range(self.with_small))
        yield from (COMPILATION for _ in range(self.with_compilation))
        yield from (f"{GROWTH}: {growth.name}" for growth in self.growths)


def select(pattern: str = "", measured: Collection[str] = (), with_growth: bool = True) -> Selection:
    """Titles that contain or match a pattern, and have not been measured."""

    def is_chosen(title: str) -> bool:
        return matches(title, pattern) and title not in measured

    chosen = {name: [case for case in cases if is_chosen(case.title)] for name, cases in sections().items()}
    return Selection(
        {name: cases for name, cases in chosen.items() if cases},
        [network for network in networks() if is_chosen(network.title)],
        is_chosen(SMALL),
        is_chosen(COMPILATION),
        [growth for growth in growths() if with_growth and is_chosen(f"{GROWTH}: {growth.name}")],
    )


def order() -> dict[str, int]:
    """The places of all titles on the page."""
    return {title: number for number, title in enumerate(select().titles)}

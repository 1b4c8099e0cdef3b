"""Whether two coordinates of a tensor share an address: an exact answer for any strides, in a bounded number of steps.

Two coordinates share an address if some vector of their differences other than 0, each less than the size of its
dimension, has the dot product 0 with the strides. The vectors with that product are a lattice of 7 dimensions at most,
and the question is whether one of them lies in a box. So the basis of the lattice is reduced, in integers and measured
in units of the box (Lenstra, Lenstra and Lovász; Cohen, A Course in Computational Algebraic Number Theory, algorithm
2.6.7). Where the box is large for the lattice one of the vectors met on the way lies in it; where none does few vectors
are short enough to be looked at one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

MOST_STEPS: Final = 4096
"""Exchanges of basis vectors and coefficients looked at, together. No layout is known that takes 500."""

_UNIT: Final = 1 << 44
"""What half an edge of the box measures."""

_MARGIN: Final = 1e-6
"""By how much the lengths allowed are widened for what is computed in floating point, relative to the longest one."""

_Vector = list[int]


class OverlapSearch(NamedTuple):
    """The answer, and after how many steps. An answer that would take more than ``MOST_STEPS`` is True: a layout that
    is not known to be sound is refused, so that nothing is ever written twice."""

    overlaps: bool
    steps: int


def overlaps_itself(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two coordinates of a tensor share an address (sizes >= 1, strides >= 0)."""
    quick = overlaps_at_sight(sizes, strides)
    return search_overlap(sizes, strides).overlaps if quick is None else quick


def overlaps_at_sight(sizes: Sequence[int], strides: Sequence[int]) -> bool | None:
    """The answer for the usual layouts, in which each stride reaches beyond what the smaller ones span, and for those
    with more elements than addresses; None for the others."""
    dimensions = _contested(sizes, strides)
    if not dimensions:
        return False
    addresses = 1 + sum(stride * steps for stride, steps in dimensions)
    if dimensions[0][0] == 0 or math.prod(steps + 1 for _, steps in dimensions) > addresses:
        return True
    return None


def search_overlap(sizes: Sequence[int], strides: Sequence[int]) -> OverlapSearch:
    """The answer for a layout that cannot be judged at sight (strides >= 1 where sizes > 1)."""
    dimensions = _contested(sizes, strides)
    if not dimensions:
        return OverlapSearch(False, 0)
    return _Search([steps for _, steps in dimensions], [stride for stride, _ in dimensions]).result()


def _contested(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Strides and largest differences of the dimensions that may take part in an overlap, by increasing strides: the
    largest stride does not if all others together reach less far, and so on."""
    dimensions = sorted((stride, size - 1) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    reach = sum(stride * steps for stride, steps in dimensions)
    while dimensions:
        stride, steps = dimensions[-1]
        reach -= stride * steps
        if stride <= reach:
            break
        dimensions.pop()
    return dimensions


class _Search:
    """A lattice, its basis on the way to being reduced, and the box ``|v[i]| <= most[i]``.

    ``determinants`` and ``products`` are those of Cohen: ``determinants[i]`` is the squared volume that the first i
    vectors span, ``products[i][j]`` the projection of vector i onto vector j made orthogonal, times
    ``determinants[j + 1]``.
    """

    def __init__(self, most: Sequence[int], strides: Sequence[int]) -> None:
        self.most = most
        # Rounded down, so no vector of the box comes out longer than it is.
        self.weights = [(_UNIT // steps) ** 2 for steps in most]
        self.basis = list(_kernel(strides))
        self.determinants = [1] * (len(self.basis) + 1)
        self.products = [[0] * len(self.basis) for _ in self.basis]
        self.steps = 0

    def result(self) -> OverlapSearch:
        """Reduces the basis, then looks at the vectors that are short enough."""
        overlaps = any(map(self._is_inside, self._reduced())) or any(map(self._is_inside, self._short_vectors()))
        return OverlapSearch(overlaps or self.steps >= MOST_STEPS, self.steps)

    def _is_inside(self, vector: _Vector) -> bool:
        return all(-most <= x <= most for x, most in zip(vector, self.most, strict=True))

    # ---- reduction

    def _reduced(self) -> Iterator[_Vector]:
        """Reduces the basis; gives every vector that becomes part of it."""
        known = -1
        k = 0
        while k < len(self.basis) and self.steps < MOST_STEPS:
            if k > known:
                known = k
                self._add(k)
            for j in range(k - 1, -1, -1):
                self._shorten(k, j)
            yield self.basis[k]
            if k > 0 and self._is_exchange_due(k):
                self._exchange(k, known)
                self.steps += 1
                k -= 1
            else:
                k += 1

    def _add(self, k: int) -> None:
        """The products and the determinant of a vector that has not been looked at."""
        for j in range(k + 1):
            product = self._dot(self.basis[k], self.basis[j])
            for i in range(j):
                lengths = self.determinants[i + 1] * product - self.products[k][i] * self.products[j][i]
                product = lengths // self.determinants[i]
            if j < k:
                self.products[k][j] = product
            else:
                self.determinants[k + 1] = product

    def _dot(self, a: _Vector, b: _Vector) -> int:
        return sum(x * y * weight for x, y, weight in zip(a, b, self.weights, strict=True))

    def _shorten(self, k: int, j: int) -> None:
        """Takes from vector k as much of vector j as makes it shortest."""
        determinant = self.determinants[j + 1]
        times = (2 * self.products[k][j] + determinant) // (2 * determinant)
        if times:
            self.basis[k] = [a - times * b for a, b in zip(self.basis[k], self.basis[j], strict=True)]
            self.products[k][j] -= times * determinant
            for i in range(j):
                self.products[k][i] -= times * self.products[j][i]

    def _is_exchange_due(self, k: int) -> bool:
        """Lovász's condition, with 3/4, does not hold."""
        before, here, behind = self.determinants[k - 1 : k + 2]
        return 4 * before * behind < 3 * here * here - 4 * self.products[k][k - 1] ** 2

    def _exchange(self, k: int, known: int) -> None:
        """Exchanges vectors k and k - 1."""
        basis, products = self.basis, self.products
        basis[k], basis[k - 1] = basis[k - 1], basis[k]
        for j in range(k - 1):
            products[k][j], products[k - 1][j] = products[k - 1][j], products[k][j]
        before, here, behind = self.determinants[k - 1 : k + 2]
        shared = products[k][k - 1]
        exchanged = (before * behind + shared * shared) // here
        for row in products[k + 1 : known + 1]:
            old = row[k]
            row[k] = (behind * row[k - 1] - shared * old) // here
            row[k - 1] = (exchanged * old + shared * row[k]) // behind
        self.determinants[k] = exchanged

    # ---- enumeration

    def _short_vectors(self) -> Iterator[_Vector]:
        """All vectors, of every pair with opposite signs one, that are not longer than the diagonal of the box."""
        count = len(self.basis)
        lengths = [self.determinants[i + 1] / self.determinants[i] for i in range(count)]
        parts = [[self.products[i][j] / self.determinants[j + 1] for j in range(i)] for i in range(count)]
        most = len(self.most) * float(_UNIT) ** 2 * (1 + _MARGIN)
        coefficients = [0] * count

        def from_level(level: int, rest: float, is_zero: bool) -> Iterator[_Vector]:
            if level < 0:
                if not is_zero:
                    yield self._combination(coefficients)
                return
            centre = -sum(coefficients[j] * parts[j][level] for j in range(level + 1, count))
            radius = math.sqrt(rest / lengths[level]) + _MARGIN
            lowest = 0 if is_zero else math.ceil(centre - radius)
            for coefficient in range(lowest, math.floor(centre + radius) + 1):
                if self.steps >= MOST_STEPS:
                    return
                self.steps += 1
                coefficients[level] = coefficient
                remaining = max(rest - (coefficient - centre) ** 2 * lengths[level], 0.0)
                yield from from_level(level - 1, remaining, is_zero and coefficient == 0)

        yield from from_level(count - 1, most, True)

    def _combination(self, coefficients: Sequence[int]) -> _Vector:
        columns = zip(*self.basis, strict=True)
        return [sum(c * x for c, x in zip(coefficients, column, strict=True)) for column in columns]


def _kernel(strides: Sequence[int]) -> Iterator[_Vector]:
    """A basis of all integer vectors with the dot product 0 with strides >= 1: one vector for each stride but the
    first, which makes up for it by those before."""
    common = strides[0]
    # Has the dot product ``common`` with the strides so far.
    combination = [1] + [0] * (len(strides) - 1)
    for position, stride in enumerate(strides[1:], 1):
        divisor = math.gcd(common, stride)
        vector = [x * (stride // divisor) for x in combination]
        vector[position] = -(common // divisor)
        yield vector
        times = pow(common // divisor, -1, stride // divisor)
        combination = [times * x for x in combination]
        combination[position] = (divisor - times * common) // stride
        common = divisor

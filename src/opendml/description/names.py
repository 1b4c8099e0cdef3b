"""Names that people type: which known one was meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from opendml.description.errors import InvalidDescriptorError
from opendml.description.quoting import quoted

LEAST_LIKENESS: Final = 0.6
"""How alike two names must be, from 0 to 1, for one to be taken for the other."""

COMPARED_NAMES: Final = 1000
"""Names that one is compared with, at most: those of a file may be very many."""


def plain(name: str) -> str:
    """What tells names apart: letters in any case, and digits."""
    return "".join(filter(str.isalnum, name)).casefold()


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a name was meant to be, the first of several as near; None if none is near.

    Letter case and underscores count for nothing: ``aTensor`` is ``ATensor``, not ``BTensor``.
    """
    wanted = plain(name[:100])
    if not wanted:
        return None
    import difflib  # which few need

    likeness = difflib.SequenceMatcher(autojunk=False)
    likeness.set_seq2(wanted)
    found, best = None, LEAST_LIKENESS
    for candidate in islice(candidates, COMPARED_NAMES):
        likeness.set_seq1(plain(candidate[:250]))
        if likeness.real_quick_ratio() < best or likeness.quick_ratio() < best:
            continue
        ratio = likeness.ratio()
        if ratio > best or (found is None and ratio == best):
            found, best = candidate, ratio
    return found


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """``; did you mean 'Strides'?`` if a candidate is near, else nothing."""
    near = nearest(name, candidates)
    return f"; did you mean {near!r}?" if near is not None else ""


def checked_text(value: object, place: str) -> str:
    """A name that can be written anywhere. Raises InvalidDescriptorError for what is no text or no Unicode."""
    if not isinstance(value, str):
        raise InvalidDescriptorError(f"{place}: expected a text, got {quoted(value)}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidDescriptorError(f"{place}: {quoted(value)} has a lone surrogate, which no file can hold")
    return value

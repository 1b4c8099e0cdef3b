"""What tells DxDispatch's models from other files."""

from __future__ import annotations

import re

__all__ = ["recognises"]


def recognises(data: bytes) -> bool:
    """Whether a file, of which these are the first bytes, is JSON text with the parts of a model."""
    return _BEGINNING.match(data) is not None and any(part in data for part in _PARTS)


# Possessive: spaces and comments can be divided in one way only, so that a file of spaces is read once, not 2^n times.
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?(?>\s+|//[^\n]*|/\*.*?\*/)*+\{", re.DOTALL)
_PARTS = (b'"resources"', b'"dispatchables"', b'"commands"')

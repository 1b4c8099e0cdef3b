"""Files by which Linux tells of the machine."""

from __future__ import annotations

from pathlib import Path


def text_of(file: Path) -> str:
    """What stands in a file, without the space around it; nothing where it cannot be read."""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeError):
        return ""

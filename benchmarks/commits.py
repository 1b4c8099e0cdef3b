"""Which commit the code is of that is measured."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

LONGEST_WAIT: Final = 30.0
"""Seconds for an answer of git's."""


def commit_of(folder: Path) -> str | None:
    """The commit that the files of a folder are of, and whether these were changed since; None where git keeps none of
    them, as of an installed package, or is not there."""
    kept, commit = _answer(folder, "ls-files", "."), _answer(folder, "rev-parse", "--verify", "HEAD")
    changes = _answer(folder, "status", "--porcelain", ".")
    if not kept or not commit or changes is None:
        return None
    return f"commit {commit[:12]}" + (" with changes" if changes else "")


def _answer(folder: Path, *command: str) -> str | None:
    """What git says of a folder; None where it fails."""
    try:
        done = subprocess.run(
            ["git", *command], cwd=folder, capture_output=True, text=True, timeout=LONGEST_WAIT, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return done.stdout.strip()

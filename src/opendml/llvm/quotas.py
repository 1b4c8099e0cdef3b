"""How much processor time Linux's control groups let this process have.

A container that is given two processors of sixty-four still sees sixty-four; what it has is a quota of its control
group: so many microseconds of processor time in every period. Version 2 of control groups keeps it in ``cpu.max``
("200000 100000", or "max 100000" where there is none), version 1 in ``cpu.cfs_quota_us`` (-1 where there is none) and
``cpu.cfs_period_us``. The groups above limit those below them, so the least of all counts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from opendml.llvm.system_files import text_of


@functools.cache
def processor_quota() -> float | None:
    """The processors' worth of time that this process may have; None without a quota. It is asked for once."""
    return quota_in(Path("/"))


def quota_in(root: Path) -> float | None:
    """As ``processor_quota``, with ``proc`` and the mounted control groups under ``root``."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except (OSError, UnicodeError):
        return None
    quotas = [quota for folder in _folders(groups, mounts) if (quota := _quota_of(root, folder)) is not None]
    return min(quotas, default=None)


def _folders(groups: list[str], mounts: list[str]) -> Iterator[PurePosixPath]:
    """Where the files of this process's groups are, and of all groups above these."""
    for group in groups:
        number, _, rest = group.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        for mount in mounts:
            before, _, after = mount.partition(" - ")
            fields, kind = before.split(), after.split()
            if len(fields) < 5 or len(kind) < 3:
                continue
            is_mine = kind[0] == "cgroup2" if number == "0" else kind[0] == "cgroup" and "cpu" in kind[2].split(",")
            if is_mine:
                yield from _upwards(PurePosixPath(path), PurePosixPath(fields[3]), PurePosixPath(fields[4]))


def _upwards(group: PurePosixPath, mounted: PurePosixPath, place: PurePosixPath) -> Iterator[PurePosixPath]:
    """The folders from a group's up to where the group ``mounted`` is seen: at ``place``.

    A group outside of what is mounted, as in a container that sees its own one only, is seen there.
    """
    inside = group.relative_to(mounted) if group.is_relative_to(mounted) else PurePosixPath()
    if ".." in inside.parts:
        inside = PurePosixPath()
    for folder in (inside, *inside.parents):
        yield place / folder


def _quota_of(root: Path, folder: PurePosixPath) -> float | None:
    files = root / folder.relative_to("/")
    older = [text_of(files / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    texts = [text_of(files / "cpu.max").split(), older]
    for numbers in texts:
        if len(numbers) == 2 and all(number.isascii() and number.isdigit() for number in numbers):
            quota, period = map(int, numbers)
            if quota > 0 and period > 0:
                return quota / period
    return None

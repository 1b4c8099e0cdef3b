"""Processors that control groups leave to a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendml.llvm import host
from opendml.llvm.quotas import quota_in

V2 = "30 23 0:26 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 {root} /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
QUOTA, PERIOD = "cpu/a/cpu.cfs_quota_us", "cpu/a/cpu.cfs_period_us"
BOTH = V1.format(root="/") + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "expected"),
    [
        ("0::/a/b\n", V2, {"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", V2, {"a/b/cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", V2, {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000"}, 2),
        ("0::/a/b\n", V2, {"a/b/cpu.max": "300000 100000\n", "a/cpu.max": "200000 50000", "cpu.max": "nonsense"}, 3),
        ("0::/\n", V2, {"cpu.max": "50000 100000"}, 0.5),
        ("0::/../elsewhere\n", V2, {"cpu.max": "400000 100000"}, 4),
        ("4:cpu,cpuacct:/a\n0::/\n", BOTH, {QUOTA: "250000", PERIOD: "100000"}, 2.5),
        ("4:cpu,cpuacct:/a\n0::/\n", BOTH, {QUOTA: "-1", PERIOD: "100000"}, None),
        (  # a container that sees its own group where the hierarchy begins
            "4:cpuacct,cpu:/docker/x\n",
            V1.format(root="/docker/x"),
            {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"},
            1,
        ),
        ("4:cpu:/docker/x\n", V1.format(root="/other"), {"cpu/cpu.cfs_quota_us": "100000"}, None),
        ("4:memory:/a\nnonsense\n", "nonsense\n" + V2, {"cpu.max": "100000 0"}, None),
    ],
)
def test_quotas(groups: str, mounts: str, files: dict[str, str], expected: float | None, tmp_path: Path) -> None:
    written = {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts}
    written |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert quota_in(tmp_path) == expected


def test_a_system_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert quota_in(tmp_path) is None


@pytest.mark.parametrize(("quota", "expected"), [(None, 4), (0.3, 1), (1.9, 1), (2, 2), (3.5, 3), (64, 4)])
def test_threads_by_default(quota: float | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(host.NUM_THREADS_VARIABLE, raising=False)
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: {1, 3, 5, 7}, raising=False)
    monkeypatch.setattr(host, "processor_quota", lambda: quota)
    assert host.default_thread_count() == expected

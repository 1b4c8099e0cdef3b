"""Processors that control groups leave to a process."""

from __future__ import annotations

import os
import subprocess
import sys
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
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5, 7}, raising=False)
    monkeypatch.setattr(host, "processor_quota", lambda: quota)
    monkeypatch.setattr(host, "core_count", len)
    assert host.default_thread_count() == host.usable_processors() == expected


@pytest.mark.parametrize(("quota", "cores", "processors"), [(None, 2, 4), (3, 2, 3), (1.5, 1, 1)])
def test_processors_of_one_core_have_one_thread(
    quota: float | None, cores: int, processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(host.NUM_THREADS_VARIABLE, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5, 7}, raising=False)
    monkeypatch.setattr(host, "processor_quota", lambda: quota)
    monkeypatch.setattr(host, "core_count", lambda processors: len({processor % 4 for processor in processors}))
    assert (host.default_thread_count(), host.usable_processors()) == (cores, processors)


ON_ONE_PROCESSOR = """
import os
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
import numpy as np
import opendml as dml
x = np.arange(60000, dtype=np.float32).reshape(1, 1, 200, 300)
for threads in (None, 3):
    device = dml.Device("cpu", thread_count=threads)
    graph = dml.Graph(device)
    program = graph.compile(dml.activation_relu(graph.input("float32", x.shape) - 7.0) * 2.0)
    assert (program(x) == np.maximum(x - 7, 0) * 2).all()
    print(device.thread_count, len(os.sched_getaffinity(0)))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_process_on_one_processor_has_one_thread_and_takes_no_other() -> None:
    """More threads, where they are asked for, share that processor."""
    environment = {name: value for name, value in os.environ.items() if name != host.NUM_THREADS_VARIABLE}
    command = [sys.executable, "-c", ON_ONE_PROCESSOR]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.split(), done.stderr) == (["1", "1", "3", "1"], "")

"""Several modules compiled at the same time, each by a process of its own: LLVM in one process serves one thread at a
time.

A worker is this Python, started with nothing but this module's ``serve``; it reads modules from its standard input and
writes object files to its standard output, each behind its length in 8 bytes. What no worker gives back, because it
could not be started or has died, is compiled here: all of it where this process may have no more threads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Final

from opendml.llvm.host import Machine, default_thread_count
from opendml.llvm.native import compile_object

WORKER_SIZE: Final = 200_000
"""Characters of modules, beside as many for this process, that are worth a worker: half the time that they take."""

WAIT: Final = 0.1
"""Seconds between reports of progress while workers are waited for."""

PATIENCE: Final = 60.0
"""Seconds that workers may take longer than this process; then it does their work."""

Progress = Callable[[float], None]
"""Told which part of a compilation is done."""

_LENGTH: Final = struct.Struct("<Q")

_END: Final = b""
"""Sent instead of a module: there are no more. A pipe need not end when it is closed here, since a process that was
forked meanwhile has its end too."""


def compile_objects(modules: Sequence[str], host: Machine, progress: Progress | None = None) -> list[bytes]:
    """The object files of modules. Raises CodeGenerationError as ``compile_object`` does."""
    return _Compilation(modules, host, progress).run()


class _Compilation:
    def __init__(self, modules: Sequence[str], host: Machine, progress: Progress | None) -> None:
        self.modules = modules
        self.host = host
        self.progress = progress
        self.size = sum(map(len, modules))
        self.found: dict[int, bytes] = {}
        self._waiting = sorted(range(len(modules)), key=lambda number: len(modules[number]))  # the largest last
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def run(self) -> list[bytes]:
        count = min(default_thread_count() - 1, len(self.modules) - 1, self.size // WORKER_SIZE - 1)
        workers = self._start_workers(0 if _is_frozen() else count)
        try:
            self._compile_waiting()
            waited = 0.0
            while waited < PATIENCE and any(worker.is_alive() for worker in workers):
                next(worker for worker in workers if worker.is_alive()).join(WAIT)
                self._report()
                waited += WAIT
        finally:
            self._end_workers()
        for number in range(len(self.modules)):
            if number not in self.found:  # no worker gives it back
                self._compile_here(number)
        return [self.found[number] for number in range(len(self.modules))]

    def _start_workers(self, count: int) -> list[threading.Thread]:
        """Threads that feed a worker each: as many as the operating system lets this process have."""
        workers: list[threading.Thread] = []
        with contextlib.suppress(RuntimeError):
            for _ in range(count):
                worker = threading.Thread(target=self._feed, daemon=True)
                worker.start()
                workers.append(worker)
        return workers

    def _end_workers(self) -> None:
        with self._lock:
            self._waiting.clear()
            for process in self._processes:
                process.kill()

    def _next(self) -> int | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def _compile_waiting(self) -> None:
        while (number := self._next()) is not None:
            self._compile_here(number)

    def _compile_here(self, number: int) -> None:
        self.found[number] = compile_object(self.modules[number], self.host)
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(sum(len(self.modules[number]) for number in list(self.found)) / max(self.size, 1))

    def _feed(self) -> None:
        """One worker's life."""
        failures = OSError, EOFError, RuntimeError, subprocess.SubprocessError
        with contextlib.suppress(*failures), _started(self.host) as worker:
            with self._lock:
                self._processes.append(worker)
            assert worker.stdin is not None and worker.stdout is not None
            with worker.stdin, worker.stdout:
                while (number := self._next()) is not None:
                    _send(worker.stdin, self.modules[number].encode())
                    self.found[number] = _received(worker.stdout)
                _send(worker.stdin, _END)


def _started(host: Machine) -> subprocess.Popen[bytes]:
    """A new worker; it finds its modules where this process does, and runs nobody's start-up code."""
    program = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
        "from opendml.llvm.compile_workers import serve; serve(sys.argv[2])"
    )
    arguments = [json.dumps([p for p in sys.path if p]), json.dumps(dataclasses.asdict(host))]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _is_frozen() -> bool:
    """Whether there is no Python to start, but a program that contains one."""
    return not sys.executable or getattr(sys, "frozen", False)


def serve(host: str) -> None:
    """What a worker does until it is told that there is nothing more to do, or its input ends."""
    facts = json.loads(host)
    machine = Machine(**facts | {"features": tuple(facts["features"])})
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(EOFError):
        while (module := _received(source)) != _END:
            _send(sink, compile_object(module.decode(), machine))


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data

"""Several modules compiled at the same time: a few by threads of this process, many by processes of their own, which
threads that write the modules that are to follow do not disturb. Workers begin while this process still writes.

A worker is this Python, started with nothing but this module's ``serve``; it reads modules from its standard input and
writes object files to its standard output, each behind its length in 8 bytes. What no worker gives back, because it
could not be started or has died, is compiled here: all of it where this process may have no more threads.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Final

from opendml.llvm.host import Machine, default_thread_count
from opendml.llvm.native import compile_object

WORKER_SIZE: Final = 200_000
"""Characters of modules, beside as many for this process, that are worth a worker: half the time that they take."""

HELPER_SIZE: Final = 4_000
"""Characters of a module that is worth a thread: some milliseconds of compilation."""

HEAD_START: Final = 0.02
"""Seconds that a helper's beginning is waited for at most, several times what it takes."""

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
    with Compilation(host, progress) as compilation:
        return compilation.finish(modules)


class Compilation:
    """Modules that are compiled as they come, by workers as soon as there are enough; to be left as a context, which
    ends the workers."""

    def __init__(self, host: Machine, progress: Progress | None = None) -> None:
        self._host = host
        self._progress = progress
        self._modules: list[str] = []
        self._size = 0
        self._found: dict[int, bytes] = {}
        self._waiting: list[int] = []  # the largest last
        self._is_whole = False  # no more modules will come
        self._workers: list[threading.Thread] = []
        self._helpers: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._changed = threading.Condition()
        self._under_way = threading.Event()  # a helper

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._is_whole = True
            self._waiting.clear()
            for process in self._processes:
                process.kill()
            self._changed.notify_all()

    def begin(self, module: str) -> None:
        """Have a module compiled while others are written, if a worker is there for it.

        A helper that is started for it goes first until it is under way: until then it makes many short calls of LLVM,
        behind each of which it would wait for this thread, who would be done with all other modules before.
        """
        self._add(module)
        self._start_workers()
        if self._start_helpers(0):
            self._under_way.wait(HEAD_START)

    def finish(self, modules: Sequence[str]) -> list[bytes]:
        """The object files of all modules that were begun, in their order, and of the last ones.

        Raises CodeGenerationError as ``compile_object`` does.
        """
        for module in modules:
            self._add(module)
        self._start_workers()
        with self._changed:
            self._is_whole = True
            self._changed.notify_all()
        self._start_helpers(1)
        while (number := self._next()) is not None:
            self._compile_here(number)
        waited = 0.0
        while waited < PATIENCE and (alive := [one for one in self._workers + self._helpers if one.is_alive()]):
            alive[0].join(WAIT)  # which may have ended meanwhile
            self._report()
            waited += WAIT
        for number in range(len(self._modules)):
            if number not in self._found:  # no worker gives it back
                self._compile_here(number)
        return [self._found[number] for number in range(len(self._modules))]

    def _add(self, module: str) -> None:
        with self._changed:
            self._modules.append(module)
            self._size += len(module)
            bisect.insort(self._waiting, len(self._modules) - 1, key=lambda number: len(self._modules[number]))
            self._changed.notify()

    def _start_workers(self) -> None:
        """Threads that feed a worker each: as many as the operating system lets this process have."""
        count = min(default_thread_count() - 1, len(self._modules) - 1, self._size // WORKER_SIZE - 1)
        with contextlib.suppress(RuntimeError):
            while len(self._workers) < count and not _is_frozen():
                worker = threading.Thread(target=self._feed, daemon=True)
                worker.start()
                self._workers.append(worker)

    def _start_helpers(self, own: int) -> int:
        """Threads of this process's own, for what waits beside the ``own`` modules that this one takes now. How many
        there are more now."""
        with self._changed:
            large = [number for number in self._waiting if len(self._modules[number]) >= HELPER_SIZE]
        before, count = len(self._helpers), min(default_thread_count() - 1 - len(self._workers), len(large) - own)
        with contextlib.suppress(RuntimeError):
            while len(self._helpers) < count:
                helper = threading.Thread(target=self._help, daemon=True)
                helper.start()
                self._helpers.append(helper)
        return len(self._helpers) - before

    def _help(self) -> None:
        """One helper's life. What it fails at is done again, and reported, by who wants to have it."""
        with contextlib.suppress(Exception):
            while (number := self._next()) is not None:
                self._compile_here(number)

    def _next(self) -> int | None:
        """A module to compile, once there is one; None if there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_whole)
            return self._waiting.pop() if self._waiting else None

    def _compile_here(self, number: int) -> None:
        self._found[number] = compile_object(self._modules[number], self._host, under_way=self._under_way.set)
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(sum(len(self._modules[number]) for number in list(self._found)) / max(self._size, 1))

    def _feed(self) -> None:
        """One worker's life."""
        failures = OSError, EOFError, RuntimeError, subprocess.SubprocessError
        with contextlib.suppress(*failures), _started(self._host) as worker:
            with self._changed:
                self._processes.append(worker)
                if self._is_whole and not self._waiting:
                    worker.kill()  # it comes too late
            assert worker.stdin is not None and worker.stdout is not None
            with worker.stdin, worker.stdout:
                while (number := self._next()) is not None:
                    _send(worker.stdin, self._modules[number].encode())
                    self._found[number] = _received(worker.stdout)
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

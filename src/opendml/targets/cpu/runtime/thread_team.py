"""Native threads that run one compiled function together.

Every compiled program is a function `void entry(ptr args, i64 thread_index, i64 thread_count, ptr barrier, ptr
control)`. `args` points to the program's array of pointers; `barrier` goes to `barrier_wait`, and to those functions by
which threads do the shares of others that are late, and `control` to `go_on`; their code (`barrier_code`) each program
that needs it contains. A dispatch is one foreign call, during which the
interpreter's lock is free:

    team = default_team(4)
    team.run(entry_address, args_address)         # on team.thread_count threads
    team.call_function(call_address)              # the same, for tight loops: of CALL_WORDS words in memory

The calling thread is thread 0 and workers are the others. Between dispatches workers spin for some microseconds
(OPENDML_SPIN_MICROSECONDS; else 100, or as long as it takes to wake them) and then sleep in the operating system. Where
a team is busy with another thread's dispatch, the caller runs the function alone, as thread 0 of 1: the results of a
program do not depend on the number of threads. It does so, too, where a worker sleeps and would take longer to wake up
than it could save.

All threads run with the default floating-point environment (round to nearest, denormals kept, no traps), whatever
other libraries have set in the calling thread, and get it back after.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import math
import mmap
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opendml.description.errors import ConfigurationError
from opendml.description.quoting import quoted
from opendml.llvm.compiled_objects import get_or_compile
from opendml.llvm.host import MAXIMUM_THREADS, Machine, host_machine, usable_processors
from opendml.llvm.native import CompileOptions, load_object
from opendml.targets.cpu.runtime.team_code import ALONE_BITS, LONG, team_ir
from opendml.targets.cpu.runtime.team_types import WAKINGS

CALL_WORDS: Final = 8
"""Words of what `call_function` is called with: four for the callers, and four for the team."""

SPIN_VARIABLE = "OPENDML_SPIN_MICROSECONDS"
DEFAULT_SPIN_MICROSECONDS = 100.0


class ThreadTeam:
    """Workers for up to `thread_count` threads, the caller's included. They are started when first needed.

    `handle` and `call_function` are for callers that dispatch often: `call_function(address)` skips Python's part
    of `run`; native code calls it at `call_address`, with the interpreter's lock held, which is free meanwhile. At
    the address there are CALL_WORDS words: handle, entry_address, args_address, what `asked` gives, and the control
    block of the dispatch. The team must be alive meanwhile. Called by the main thread, it has signals handled while it
    runs, and stops where a handler raises something: what Ctrl-C raises, KeyboardInterrupt, comes out of it.
    A team may be used from any thread, and in a child process after a fork, where it starts workers of its own.
    Raises ConfigurationError for a thread count outside 1 to MAXIMUM_THREADS.
    """

    def __init__(self, thread_count: int, *, spin_microseconds: float | None = None) -> None:
        _check_thread_count(thread_count)
        native = _native_team(host_machine())
        asked_for = _spin_microseconds_asked_for() if spin_microseconds is None else spin_microseconds
        spin_microseconds = DEFAULT_SPIN_MICROSECONDS if asked_for is None else asked_for
        self.thread_count = thread_count
        self.call_function = native.call
        self.call_address = native.call_address
        self._native = native
        self._memory, self.handle = _allocate(native.size(thread_count))
        spins = round(spin_microseconds * native.spins_per_microsecond)
        rounds = max(round(native.spins_per_microsecond), 1) if asked_for is None else 0
        native.initialise(self.handle, thread_count - 1, spins, usable_processors(), round(spin_microseconds), rounds)
        _teams.add(self)
        # At exit _stop_all does this while keeping the memory, since another thread may still dispatch.
        weakref.finalize(self, _stop, native, self.handle, self._memory).atexit = False

    def run(self, entry_address: int, args_address: int, thread_count: int | None = None, *, alone: int = LONG) -> int:
        """Run the function at `entry_address` on `thread_count` threads, the team's own number by default.

        Returns when all of them have returned, with their number: 1 if the team was busy, or if a worker sleeps and it
        is not worth to wake it for what one thread does in `alone` microseconds, and fewer than asked for if the team
        is smaller, the operating system gave no more, or fewer have been found to be sooner.
        """
        return self._native.run(
            self.handle, entry_address, args_address, asked(thread_count or self.thread_count, alone)
        )

    @property
    def waking_microseconds(self) -> tuple[int, ...]:
        """How long the slowest of the workers that sleep takes to wake up, medians of the last times: where the last
        dispatch is up to SHORTEST_PAUSE microseconds ago, up to twice as many, four times, and so on."""
        return tuple(self._native.waking(self.handle, pause) for pause in range(WAKINGS))

    def stop(self) -> None:
        """Wait for a dispatch in progress and end the workers. Later dispatches run on the calling thread alone."""
        _stop(self._native, self.handle, self._memory)

    def reset_after_fork(self) -> None:
        """Forget the workers, which exist in the parent process only."""
        self._native.reset(self.handle)


def asked(thread_count: int, alone: int) -> int:
    """The word that says how many threads are asked for, and how many microseconds one of them would take alone."""
    return thread_count | min(alone, LONG) << ALONE_BITS


def default_team(thread_count: int) -> ThreadTeam:
    """The team that this process shares, with room for `thread_count` threads or more: pass the count to its `run`.

    A caller that keeps the team's handle must keep the team, since a larger one may take its place here.
    Raises ConfigurationError for a thread count outside 1 to MAXIMUM_THREADS.
    """
    _check_thread_count(thread_count)
    return _shared_team.get(thread_count)


def _check_thread_count(thread_count: int) -> None:
    if type(thread_count) is not int or not 1 <= thread_count <= MAXIMUM_THREADS:
        raise ConfigurationError(f"thread_count={quoted(thread_count)}: expected a number from 1 to {MAXIMUM_THREADS}")


class _SharedTeam:
    """One team for the whole process, replaced by a larger one when that is asked for."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._team: ThreadTeam | None = None

    def get(self, thread_count: int) -> ThreadTeam:
        with self.lock:
            if self._team is None or self._team.thread_count < thread_count:
                # Room costs some hundred bytes a thread; the threads themselves come with the first dispatch.
                self._team = ThreadTeam(max(thread_count, min(2 * usable_processors() + 64, MAXIMUM_THREADS)))
            return self._team


class _NativeTeam(NamedTuple):
    """The team's native functions, all of integers, and how many rounds of its spin loops take a microsecond."""

    size: Callable[[int], int]
    initialise: Callable[[int, int, int, int, int, int], None]
    reset: Callable[[int], None]
    run: Callable[[int, int, int, int], int]
    call: Callable[[int], None]
    stop: Callable[[int], None]
    stop_at_end: Callable[[int], None]
    call_address: int
    know: Callable[[int, int, int, int], None]
    waking: Callable[[int, int], int]
    spins_per_microsecond: float


@functools.cache
def _native_team(host: Machine) -> _NativeTeam:
    data, _ = get_or_compile(team_ir(host), host, _TEAM_OPTIONS)
    prototypes: dict[str, Any] = {
        "team_size": ctypes.CFUNCTYPE(_INTEGER, _INTEGER),
        "team_initialise": ctypes.CFUNCTYPE(None, _POINTER, _INTEGER, _INTEGER, _INTEGER, _INTEGER, _INTEGER),
        "team_reset": ctypes.CFUNCTYPE(None, _POINTER),
        "team_run": ctypes.CFUNCTYPE(_INTEGER, _POINTER, _POINTER, _POINTER, _INTEGER),
        "team_call": ctypes.PYFUNCTYPE(None, _POINTER),  # gives the interpreter's lock back itself
        "team_stop": ctypes.CFUNCTYPE(None, _POINTER),
        "team_know": ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _INTEGER),
        "team_waking": ctypes.CFUNCTYPE(_INTEGER, _POINTER, _INTEGER),
        "team_pause": ctypes.CFUNCTYPE(None, _INTEGER),
    }
    code = load_object(data, prototypes, host)
    code.keep_until_exit()  # Sleeping workers return into this code.
    size, initialise, reset, run, call, stop, know, waking, pause = (
        prototypes[name](code[name]) for name in prototypes
    )
    stop_at_end = ctypes.PYFUNCTYPE(None, _POINTER)(code["team_stop"])
    address, pauses = code["team_call"], _pauses_per_microsecond(pause)
    native = _NativeTeam(size, initialise, reset, run, call, stop, stop_at_end, address, know, waking, pauses)
    _introduce(native)
    return native


def _introduce(native: _NativeTeam) -> None:
    """Tell the team's code about this Python and its main thread."""
    names = "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals"
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in names]
    identity = threading.main_thread().ident or 0
    native.know(functions[0], functions[1], functions[2], identity - (1 << 64) * (identity >> 63))


# Nothing in the team's code is hot but its spin loops, and the first dispatch of a machine waits for its compilation.
_TEAM_OPTIONS = CompileOptions(speed_level=0, codegen_level=0, between_functions=True)
_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p


def _pauses_per_microsecond(pause: Callable[[int], None]) -> float:
    """The pause instruction takes from one cycle to over a hundred, depending on the processor."""
    count, fastest = 1000, math.inf
    for _ in range(5):
        start = time.perf_counter()
        pause(count)
        fastest = min(fastest, time.perf_counter() - start)
    return count / max(fastest * 1e6, 1e-3)


def _spin_microseconds_asked_for() -> float | None:
    text = os.environ.get(SPIN_VARIABLE, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e6:
        raise ConfigurationError(f"{SPIN_VARIABLE}={quoted(text)}: expected a number of microseconds from 0 to 1000000")
    return value


def _allocate(size: int) -> tuple[object, int]:
    """Zeroed memory, and an address in it from which on there are ``size`` bytes, the first ones of a page.

    It is Python's own, as unmapping gives the interpreter's lock back, even if Python is ending (see ``_stop``).
    """
    memory = (ctypes.c_char * (size + mmap.PAGESIZE))()
    address = ctypes.addressof(memory)
    return memory, address + -address % mmap.PAGESIZE


def _stop(native: _NativeTeam, handle: int, _memory: object) -> None:
    """End a team's workers, which needs its memory.

    While Python is ending, the interpreter's lock is kept meanwhile: a thread that gives it back then never gets it
    again, also if it is the one that ends a subinterpreter, and the process would wait for the workers for ever.
    """
    (native.stop_at_end if sys.is_finalizing() else native.stop)(handle)


def _stop_all() -> None:
    """Before the interpreter ends: no worker may be running when its memory goes."""
    for team in list(_teams):
        team.stop()


def _reset_after_fork() -> None:
    for team in list(_teams):
        team.reset_after_fork()
        _introduce(team._native)  # the thread that has forked is the main one now
    _shared_team.lock.release()


_teams: weakref.WeakSet[ThreadTeam] = weakref.WeakSet()
_shared_team = _SharedTeam()
atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_shared_team.lock.acquire, after_in_parent=_shared_team.lock.release, after_in_child=_reset_after_fork
    )

"""Room on the stack: LLVM goes deep, and a caller's thread may have little.

What kernels need while they run is small whatever their shapes (``STACK_BOUND``); what compiling them needs is not.
"""

from __future__ import annotations

import contextvars
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from opendml.description.errors import OutOfMemoryError

STACK_BOUND: Final = 8192
"""Bytes of stack that a function of a program uses at most: registers that LLVM spills, and scratch memory where all
kernels want no more than two KiB. All other memory of kernels is the program's."""

COMPILING: Final = 1 << 20
"""Bytes of a stack from which on it is large enough to compile on."""

LARGE: Final = 16 << 20
"""Bytes of the stack of a thread that is started to compile on; of these only what is touched takes memory."""

Result = TypeVar("Result")


def on_large_stack(work: Callable[[], Result]) -> Result:
    """What ``work()`` gives, done by this thread if its stack is large enough to compile on, else by one that has one.

    Raises what ``work`` raises, and OutOfMemoryError where there is no such thread.
    """
    size = _stack_size()
    if size is None or size >= COMPILING:
        return work()
    done: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    with _starting:
        before = threading.stack_size(LARGE)
        try:
            thread.start()
        except RuntimeError as error:
            reason = f"this thread's stack has {size} bytes, and no other thread can be started"
            raise OutOfMemoryError(f"a stack of {COMPILING} bytes is needed to compile: {reason}") from error
        finally:
            threading.stack_size(before)
    thread.join()
    if raised:
        raise raised[0]
    return done[0]


_starting = threading.Lock()
_known = threading.local()


def _stack_size() -> int | None:
    """The bytes of this thread's stack; None where that is not known."""
    if not hasattr(_known, "size"):
        try:
            _known.size = _limit_of_process() if threading.current_thread() is threading.main_thread() else _asked_for()
        except (AttributeError, OSError, ImportError):
            _known.size = None
    size: int | None = _known.size
    return size


def _limit_of_process() -> int | None:
    """The bytes of the first thread's stack."""
    if sys.platform == "win32":
        return _asked_for()
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return None if limit == resource.RLIM_INFINITY else limit


def _asked_for() -> int | None:
    """The bytes of the stack that the operating system has made for this thread."""
    size, address = ctypes.c_size_t(), ctypes.c_void_p()
    if sys.platform == "win32":
        limits = ctypes.c_size_t(), ctypes.c_size_t()
        ctypes.WinDLL("kernel32").GetCurrentThreadStackLimits(*map(ctypes.byref, limits))
        return limits[1].value - limits[0].value
    system: Any = ctypes.CDLL(None)
    system.pthread_self.restype = ctypes.c_void_p
    this_thread = ctypes.c_void_p(system.pthread_self())
    if sys.platform == "darwin":
        system.pthread_get_stacksize_np.restype = ctypes.c_size_t
        return int(system.pthread_get_stacksize_np(this_thread))
    attributes = ctypes.create_string_buffer(128)  # room for every platform's pthread_attr_t
    if system.pthread_getattr_np(this_thread, attributes) != 0:
        return None
    failure = system.pthread_attr_getstack(attributes, ctypes.byref(address), ctypes.byref(size))
    system.pthread_attr_destroy(attributes)
    return None if failure else size.value


__all__ = ["COMPILING", "LARGE", "STACK_BOUND", "on_large_stack"]

"""LLVM text for other processors than this one, each module compiled by a process of its own.

Some of LLVM's back ends abort on what they do not expect, and take their process along; SPIR-V's also remembers
something of the modules before, and numbers values twice. So a worker, which is this Python, started with nothing but
this module's ``serve``, has LLVM ready and is forked for every module. It ends with its input, so with this process.
Where processes cannot be forked, there is a worker for each module.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from typing import IO, Any, Final

from opendml.description.errors import CodeGenerationError
from opendml.llvm.compile_workers import Progress
from opendml.llvm.forking import hold_while_forking
from opendml.llvm.native import compiler_version
from opendml.llvm.object_cache import FORMAT_VERSION, get_or_make

_HEADER: Final = struct.Struct("<?Q")
OPTIMISATION: Final = 0
"""How hard LLVM's code generator tries: not at all, since a driver has an optimiser of its own that knows the device.
What is written is what it gets."""

_FORKS: Final = hasattr(os, "fork")
_ENDED: Final = "LLVM ended with status {} on the generated code for {}"


def foreign_key(module: str, triple: str, processor: str = "", assembly: bool = False) -> bytes:
    """The 32 bytes that name a foreign module's object in the cache."""
    facts = ("foreign", compiler_version(), FORMAT_VERSION, OPTIMISATION, triple, processor, assembly)
    return hashlib.sha256(f"{facts!r}\n{module}".encode()).digest()


def compile_foreign(
    modules: Sequence[str],
    triple: str,
    processor: str = "",
    *,
    assembly: bool = False,
    progress: Progress | None = None,
) -> tuple[list[bytes], bool]:
    """The objects of modules for another processor, or their ``assembly``, and whether all came from the cache.

    The text must not say its own ``target triple`` or ``target datalayout``. Where it begins with a comment, the object
    does with the same line: what those who load it have to know. Raises CodeGenerationError with LLVM's
    words, or where LLVM aborts.
    """
    objects = list[bytes]()
    from_cache = True
    for number, module in enumerate(modules):
        request = {"triple": triple, "processor": processor, "assembly": assembly, "module": module}
        key = foreign_key(module, triple, processor, assembly)
        found, was_there = get_or_make(key, partial(_made, request))
        if progress is not None and not was_there:
            progress((number + 1) / len(modules))
        from_cache = from_cache and was_there
        objects.append(found)
    return objects, from_cache


def _made(request: dict[str, Any]) -> bytes:
    return _comment(request["module"]).encode() + _worker.compile(request)


def _comment(module: str) -> str:
    """The first line, if it is a comment."""
    return module[: module.index("\n") + 1] if module.startswith(";") else ""


class _Worker:
    """The process that compiles, one module at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def compile(self, request: dict[str, Any]) -> bytes:
        """One module's object."""
        with self.lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                _send(process.stdin, True, json.dumps(request).encode())
                succeeded, data = _received(process.stdout)
            except (OSError, EOFError) as error:
                status = self.end()
                raise CodeGenerationError(_ENDED.format(status, request["triple"])) from error
            if not _FORKS:
                self.end()
        if not succeeded:
            raise CodeGenerationError(data.decode())
        return data

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process, self._owner = _started(), os.getpid()
        return self._process

    def end(self) -> int | None:
        """End the process, if it is this one's; its exit status."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return None
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _started() -> subprocess.Popen[bytes]:
    """A new worker; it finds its modules where this process does, and runs nobody's start-up code."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise CodeGenerationError("there is no Python to start that could compile for another processor")
    program = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from opendml.llvm.foreign import serve; serve()"
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program, json.dumps([p for p in sys.path if p])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        raise CodeGenerationError(f"no process could be started to compile in: {error}") from error


def serve() -> None:
    """What a worker does until its input ends."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(EOFError):
        while True:
            request = json.loads(_received(source)[1])
            child = os.fork() if _FORKS else 0
            if child:
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                if status:
                    _send(sink, False, _ENDED.format(status, request["triple"]).encode())
            else:
                _answer(request, sink)
                os._exit(0)


def _answer(request: dict[str, Any], sink: IO[bytes]) -> None:
    """Compile a module and send what comes of it: LLVM's words go to whoever asked."""
    try:
        answer = True, _compiled(**request)
    except Exception as error:
        answer = False, str(error).encode()
    _send(sink, *answer)


def _compiled(triple: str, processor: str, assembly: bool, module: str) -> bytes:
    import llvmlite.binding as llvm

    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=OPTIMISATION)
    header = f'target datalayout = "{machine.target_data}"\ntarget triple = "{triple}"\n'
    parsed = llvm.parse_assembly(header + module)
    parsed.verify()
    return str(machine.emit_assembly(parsed)).encode() if assembly else bytes(machine.emit_object(parsed))


def _send(stream: IO[bytes], succeeded: bool, data: bytes) -> None:
    stream.write(_HEADER.pack(succeeded, len(data)) + data)
    stream.flush()


def _received(stream: IO[bytes]) -> tuple[bool, bytes]:
    succeeded, length = _HEADER.unpack(_exactly(stream, _HEADER.size))
    return succeeded, _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


_worker: Final = _Worker()
atexit.register(_worker.end)
hold_while_forking(_worker.lock.acquire, _worker.lock.release)

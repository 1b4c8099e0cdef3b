"""Object files, compiled where the disk cache does not have them (``opendml.llvm.object_cache``)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from opendml.llvm import object_cache
from opendml.llvm.host import Machine
from opendml.llvm.native import DEFAULT_OPTIONS, CompileOptions, compile_object, compiler_version
from opendml.llvm.object_cache import default_cache, get_or_make

if TYPE_CHECKING:
    from opendml.llvm.compile_workers import Progress

__all__ = ["Compilation", "get_or_compile", "get_or_compile_all", "object_key"]


def get_or_compile(llvm_ir: str, host: Machine, options: CompileOptions = DEFAULT_OPTIONS) -> tuple[bytes, bool]:
    """The object file of `llvm_ir`, and whether it came from the cache.

    Raises CodeGenerationError as `compile_object` does. A cache that cannot be read or written costs time, no error.
    """
    return get_or_make(object_key(llvm_ir, host, options), lambda: compile_object(llvm_ir, host, options))


def get_or_compile_all(
    modules: Sequence[str], host: Machine, progress: Progress | None = None, shared: Sequence[str] = ()
) -> tuple[list[bytes], bool]:
    """The object files of several modules, and whether all came from the cache.

    Those that did not are compiled side by side where they are large. `progress` is told which part is done. `shared`
    are modules that many programs have: the process remembers their object files, whatever becomes of the cache.
    """
    with Compilation(host, progress, shared) as compilation:
        return compilation.finish(modules)


class Compilation:
    """Modules that are compiled where the cache does not have them, while others are written: a context. ``shared`` as
    for ``get_or_compile_all``."""

    def __init__(self, host: Machine, progress: Progress | None = None, shared: Sequence[str] = ()) -> None:
        from opendml.llvm import compile_workers  # and with it what starts processes

        self._host = host
        self._shared = shared
        self._cache = default_cache()
        self._compilation = compile_workers.Compilation(host, progress)
        self._found: dict[str, bytes] = {}  # in the cache
        self._missing: dict[str, bytes] = {}  # those that were begun, to their keys

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._compilation.__exit__(kind, error, at)

    def begin(self, module: str) -> None:
        """Have a module compiled that `finish` will be asked for."""
        if self._is_missing(module):
            self._compilation.begin(module)

    def finish(self, modules: Sequence[str]) -> tuple[list[bytes], bool]:
        """The object files of modules, and whether all came from the cache. Raises CodeGenerationError."""
        compiled = self._compilation.finish([module for module in modules if self._is_missing(module)])
        for (module, key), data in zip(self._missing.items(), compiled, strict=True):
            self._found[module] = data
            if module in self._shared:
                _remembered[key] = data
            if self._cache is not None:
                self._cache.write(key, data)
        return [self._found[module] for module in modules], not self._missing

    def _is_missing(self, module: str) -> bool:
        """Whether a module is to be compiled, which is asked for the first time."""
        if module in self._found or module in self._missing:
            return False
        key = object_key(module, self._host)
        stored = None if self._cache is None else self._cache.read(key)
        if stored is None and key in _remembered:
            stored = _remembered[key]
            if self._cache is not None:
                self._cache.write(key, stored)
        if stored is None:
            self._missing[module] = key
        else:
            self._found[module] = stored
        return stored is None


_remembered: dict[bytes, bytes] = {}
"""The object files of shared modules that this process has compiled, by their keys."""


def object_key(llvm_ir: str, host: Machine, options: CompileOptions = DEFAULT_OPTIONS) -> bytes:
    """The 32 bytes that name an entry: a hash over all that the object file depends on."""
    facts = (compiler_version(), object_cache.FORMAT_VERSION, host.triple, host.cpu_name, host.llvm_features, options)
    return hashlib.sha256(f"{facts!r}\n{llvm_ir}".encode()).digest()

"""Object files, compiled where the disk cache does not have them (``opendml.llvm.object_cache``)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from opendml.llvm import object_cache
from opendml.llvm.compile_workers import Progress, compile_objects
from opendml.llvm.host import Machine
from opendml.llvm.native import DEFAULT_OPTIONS, CompileOptions, compile_object, compiler_version
from opendml.llvm.object_cache import default_cache, get_or_make

__all__ = ["get_or_compile", "get_or_compile_all", "object_key"]


def get_or_compile(llvm_ir: str, host: Machine, options: CompileOptions = DEFAULT_OPTIONS) -> tuple[bytes, bool]:
    """The object file of `llvm_ir`, and whether it came from the cache.

    Raises CodeGenerationError as `compile_object` does. A cache that cannot be read or written costs time, no error.
    """
    return get_or_make(object_key(llvm_ir, host, options), lambda: compile_object(llvm_ir, host, options))


def get_or_compile_all(
    modules: Sequence[str], host: Machine, progress: Progress | None = None
) -> tuple[list[bytes], bool]:
    """The object files of several modules, and whether all came from the cache.

    Those that did not are compiled side by side where they are large. `progress` is told which part is done.
    """
    cache = default_cache()
    keys = [object_key(module, host) for module in modules]
    found = [None if cache is None else cache.read(key) for key in keys]
    missing = [number for number, stored in enumerate(found) if stored is None]
    compiled = compile_objects([modules[number] for number in missing], host, progress)
    for number, data in zip(missing, compiled, strict=True):
        found[number] = data
        if cache is not None:
            cache.write(keys[number], data)
    return [data for data in found if data is not None], not missing


def object_key(llvm_ir: str, host: Machine, options: CompileOptions = DEFAULT_OPTIONS) -> bytes:
    """The 32 bytes that name an entry: a hash over all that the object file depends on."""
    facts = (compiler_version(), object_cache.FORMAT_VERSION, host.triple, host.cpu_name, host.llvm_features, options)
    return hashlib.sha256(f"{facts!r}\n{llvm_ir}".encode()).digest()

"""LLVM text to machine code, and machine code into this process.

`compile_object` gives a relocatable object file's bytes, which may be stored; `load_object` maps such bytes into memory
and gives the addresses of its functions, where it can without LLVM, which is imported when it is needed.
"""

from __future__ import annotations

import ctypes
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from opendml.description.errors import CodeGenerationError
from opendml.llvm.forking import hold_while_forking
from opendml.llvm.host import Machine, host_machine
from opendml.llvm.placement import place
from opendml.llvm.processor_facts import processor_facts
from opendml.llvm.stacks import on_large_stack


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How hard LLVM tries.

    The generator writes explicit vectors, so LLVM's own vectorisers are off: they find little and cost time.
    `speed_level` (0 to 3) chooses the pipeline of the optimiser, `codegen_level` (0 to 3) that of the code generator.
    Level 3 takes twice as long as level 2 because it unrolls and unswitches more; on straight-line vector loop nests
    it gains nothing but where the trip count of an inner vector loop is small and constant. Kernels are as fast at
    level 1 too, which does without a numbering of all values. They call nothing that is to be part of them, so that
    each function is optimised by itself: what looks at all of a module, `between_functions`, takes half as long again.

    Much text that is written out in long blocks, as tiles of sums are, has little in it for an optimiser to find: from
    ``straight_size`` characters on with ``straight_block`` instructions a block on average, it goes through the few
    passes of ``_add_straight_passes`` only, which take a third to a fifth of the time of level 1. Networks are as fast
    then as at level 2: the code generator hoists, shares and strength-reduces what is left. So do functions of any
    size that say that they are `STRAIGHT`, and are in as long blocks.
    """

    speed_level: int = 1
    codegen_level: int = 2
    between_functions: bool = False
    loop_unrolling: bool = True
    vectorization: bool = False
    straight_size: int = 1 << 16
    straight_block: int = 8


DEFAULT_OPTIONS = CompileOptions()

STRAIGHT: Final = '"straight"'
"""An attribute of functions whose writer has left nothing to find: an optimiser's few passes are enough for them."""

LIBRARIES: Final = 64
"""Objects that one linker loads."""


def compile_object(
    llvm_ir: str, host: Machine, options: CompileOptions = DEFAULT_OPTIONS, under_way: Callable[[], None] = lambda: None
) -> bytes:
    """Compile LLVM text to a relocatable object file (its bytes).

    The text must not say its own `target triple` or `target datalayout`: these come from `host`. `under_way` is called
    where only a few calls of LLVM are left, which take long and let other threads run.
    Raises CodeGenerationError with LLVM's words if the text does not parse or verify.
    """

    def compiled() -> bytes:
        with _optimised(llvm_ir, host, options, under_way) as (module, machine):
            return _object_file(module, machine)

    return on_large_stack(compiled)


def verify(llvm_ir: str, host: Machine) -> None:
    """Raise CodeGenerationError with LLVM's words where `compile_object` would, without compiling anything."""
    with _llvm_lock:
        _parsed(llvm_ir, host)


def assembly(llvm_ir: str, host: Machine, options: CompileOptions = DEFAULT_OPTIONS) -> str:
    """The assembly listing of what `compile_object` makes of the same arguments."""
    with _optimised(llvm_ir, host, options) as (module, machine):
        return str(machine.emit_assembly(module))


def optimised_ir(llvm_ir: str, host: Machine, options: CompileOptions = DEFAULT_OPTIONS) -> str:
    """LLVM text after the optimiser, before instruction selection."""
    with _optimised(llvm_ir, host, options) as (module, _):
        return str(module)


class LoadedObject:
    """Machine code in memory. `addresses` maps each requested symbol to its address; `object["entry"]` is one of them.

    The code is unmapped when this object dies: whoever holds an address must hold the object too.
    """

    __slots__ = ("_tracker", "addresses")

    def __init__(self, tracker: Any, addresses: Mapping[str, int]) -> None:
        self._tracker = tracker
        self.addresses = MappingProxyType(dict(addresses))

    def __getitem__(self, symbol: str) -> int:
        return self.addresses[symbol]

    def keep_until_exit(self) -> None:
        """Never unmap the code: for code that threads may still be in when the interpreter ends."""
        self._tracker.detach()


def load_object(
    data: bytes, symbols: Iterable[str], host: Machine | None = None, more: Iterable[bytes] = ()
) -> LoadedObject:
    """Map an object file made by `compile_object`, and `more` that it refers to, and give the addresses of `symbols`.

    The objects may refer to the symbols of this process (memcpy, pthread_create, ...). Its bytes are machine code that
    will run: they must come from the compiler or from an authenticated cache.
    Raises CodeGenerationError if a symbol, or one that the code refers to, is absent.
    """
    objects, symbols, host = (data, *more), tuple(symbols), host or host_machine()
    tracker: Any = place(objects, symbols, host)
    if tracker is None:
        tracker = _linked(objects, symbols, host)
    return LoadedObject(tracker, {symbol: int(tracker[symbol]) for symbol in symbols})


def _linked(objects: Iterable[bytes], symbols: Iterable[str], host: Machine) -> Any:
    """Objects that LLVM places."""
    with _llvm_lock:
        library = _llvm().JITLibraryBuilder().add_current_process()
        for data in objects:
            library.add_object_img(data)
        for symbol in symbols:
            library.export_symbol(symbol)
        try:
            return library.link(*next(_linkers(host)))
        except RuntimeError as error:
            raise CodeGenerationError(f"the object file cannot be loaded: {error}") from error


def compiler_version() -> str:
    """The versions that decide what `compile_object` emits, as one line."""
    return processor_facts().compiler


class _LlvmLock:
    """Held by the thread that works with LLVM otherwise than to compile, which several may do at a time.

    Each of llvmlite's calls takes a lock of its own, also those that dispose of what nobody refers to any longer, in
    whatever thread that happens. Around a fork that one is taken too, and nobody compiles, so that no child process
    begins with it held, or with LLVM's state half changed.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._compiling: list[int] = []
        self._forking: list[Any] = []

    def __enter__(self) -> None:
        self._changed.acquire()

    def __exit__(self, *_: object) -> None:
        self._changed.release()

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Inside, this thread compiles."""
        thread = threading.get_ident()
        with self._changed:
            self._compiling.append(thread)
        try:
            yield
        finally:
            with self._changed:
                self._compiling.remove(thread)
                self._changed.notify_all()

    def acquire(self) -> None:
        """Before a fork."""
        thread = threading.get_ident()
        self._changed.acquire()
        self._changed.wait_for(lambda: all(other == thread for other in self._compiling))
        ffi = sys.modules.get("llvmlite.binding.ffi")  # not there as long as nothing was compiled or loaded
        theirs = getattr(getattr(ffi, "lib", None), "_lock", None)
        if theirs is not None:
            theirs.__enter__()
        self._forking.append(theirs)

    def release(self) -> None:
        """After it, in either process."""
        theirs = self._forking.pop()
        if theirs is not None:
            theirs.__exit__(None, None, None)
        self._changed.release()


_llvm_lock = _LlvmLock()
hold_while_forking(_llvm_lock.acquire, _llvm_lock.release)


@contextmanager
def _optimised(
    llvm_ir: str, host: Machine, options: CompileOptions, under_way: Callable[[], None] = lambda: None
) -> Iterator[tuple[Any, Any]]:
    with _compiling_machine(host, options.codegen_level, _stack_alignment(llvm_ir)) as machine:
        llvm = _llvm()  # no fork while it is imported: a child would wait for that for ever
        module = _parsed(llvm_ir, host)
        tuning = llvm.create_pipeline_tuning_options(speed_level=options.speed_level)
        tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = options.vectorization
        tuning.loop_unrolling = options.loop_unrolling
        builder = llvm.create_pass_builder(machine, tuning)
        if options.between_functions:
            with _freed(builder.getModulePassManager()) as passes:
                passes.run(module, builder)
        else:
            run = _beside_others("LLVMPY_RunNewFunctionPassManager")
            with ExitStack() as stack:
                parts = [
                    (stack.enter_context(_freed(_function_passes(straight, builder, options))), functions)
                    for straight, functions in _divided(llvm_ir, module, options).items()
                ]
                under_way()
                for passes, functions in parts:
                    for function in functions:
                        run(passes, function, builder)
        yield module, machine


def _object_file(module: Any, machine: Any) -> bytes:
    """What ``machine.emit_object(module)`` gives, beside other threads."""
    from llvmlite.binding import ffi

    with ffi.OutputString() as words:
        buffer = _beside_others("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, words)
        if not buffer:
            raise CodeGenerationError(f"LLVM gives no object file: {words}")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _beside_others(name: str) -> Any:
    """A function of llvmlite's library without the lock that lets one thread at a time into it, if llvmlite has it so.

    Of those functions that take long, and work on nothing but a module and a target machine: LLVM lets threads compile
    side by side as long as each has a context and a machine of its own ("Threads and LLVM" in its programmer's manual).
    """
    from llvmlite.binding import ffi

    locked = getattr(ffi.lib, name)
    return getattr(locked, "_cfn", locked)


def _divided(llvm_ir: str, module: Any, options: CompileOptions) -> dict[bool, list[Any]]:
    """The functions of a module, by whether they are straight."""
    is_long = len(llvm_ir) >= options.straight_size and _has_long_blocks(llvm_ir, options)
    straight = {name for name, text in _marked(llvm_ir) if _has_long_blocks(text, options)}
    found: dict[bool, list[Any]] = {}
    for function in module.functions:
        if not function.is_declaration:
            found.setdefault(is_long or (bool(straight) and function.name in straight), []).append(function)
    return found


def _marked(llvm_ir: str) -> Iterator[tuple[str, str]]:
    """The functions that say that they are straight: their names and texts."""
    for text in f"\n{llvm_ir}".split("\ndefine ")[1:]:
        head, _, body = text.partition("\n")
        if STRAIGHT in head:
            yield head[head.index("@") + 1 : head.index("(")], body


def _function_passes(straight: bool, builder: Any, options: CompileOptions) -> Any:
    """What optimises each function by itself."""
    if not straight:
        return builder.getFunctionPassManager()
    passes = _llvm().create_new_function_pass_manager()
    _add_straight_passes(passes, options)
    return passes


def _add_straight_passes(passes: Any, options: CompileOptions) -> None:
    """What long blocks gain by: memory of the stack becomes registers, the short loops among the blocks are turned
    round and written out, and what a single instruction can do is done by one."""
    passes.add_sroa_pass()
    passes.add_loop_rotate_pass()
    if options.loop_unrolling:
        passes.add_loop_unroll_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()


def _has_long_blocks(llvm_ir: str, options: CompileOptions) -> bool:
    """Whether text is in long blocks: instructions are indented, labels are not."""
    return llvm_ir.count("\n  ") >= options.straight_block * llvm_ir.count(":\n")


def _parsed(llvm_ir: str, host: Machine) -> Any:
    """A verified module."""
    header = f'target datalayout = "{_data_layout(host)}"\ntarget triple = "{host.triple}"\n'
    try:
        module = _llvm().parse_assembly(header + llvm_ir, _llvm().create_context())
        module.verify()
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM does not accept the generated code: {error}") from error
    return module


@contextmanager
def _freed(passes: Any) -> Iterator[Any]:
    """A manager of the optimiser's passes, freed afterwards.

    llvmlite 0.50 does not free them: closing a pass manager calls the empty method of ``ObjectRef``, which stands
    before its own in the order of its bases. A manager is 70 KiB after its run.
    """
    from llvmlite.binding.ffi import ObjectRef
    from llvmlite.binding.newpassmanagers import NewPassManager

    try:
        yield passes
    finally:
        if type(passes)._dispose is ObjectRef._dispose:
            NewPassManager._dispose(passes)
            passes.detach()
        else:
            passes.close()


def _target_machine(host: Machine, codegen_level: int) -> Any:
    return (
        _llvm()
        .Target.from_triple(host.triple)
        .create_target_machine(
            cpu=host.cpu_name, features=host.llvm_features, opt=codegen_level, reloc="pic", codemodel="small", jit=True
        )
    )


def _stack_alignment(llvm_ir: str) -> int:
    """The bytes that a module says its functions find the stack aligned to; 0 where it says nothing."""
    found = re.search(r'!"override-stack-alignment", i32 (\d+)', llvm_ir)
    return 0 if found is None else int(found[1])


@contextmanager
def _compiling_machine(host: Machine, codegen_level: int, stack_alignment: int) -> Iterator[Any]:
    """A target machine for this thread alone, to compile inside. One that was used before, if there is one: a new one
    learns first what a processor can do, which takes 2 ms. It then takes the stack to be aligned as the module said
    for which it did so, whatever others say: these have machines of their own."""
    idle = _idle_machines.setdefault((host, codegen_level, stack_alignment), [])
    with _llvm_lock.compiling():
        try:
            machine = idle.pop()
        except IndexError:
            machine = _target_machine(host, codegen_level)
        try:
            yield machine
        finally:
            idle.append(machine)


_idle_machines: Final[dict[tuple[Machine, int, int], list[Any]]] = {}


@functools.cache
def _linkers(host: Machine) -> Iterator[tuple[Any, str]]:
    """A linker and a name for a library in it, as often as one is asked for.

    A linker keeps the names of libraries that are long gone, so every now and then a new one takes over; the old one
    goes with the last of its libraries.
    """
    # JITLink places the sections of an object in one block, within reach of the small code model, and reports what is
    # wrong with an object; the older RuntimeDyld scatters them and ends the process.
    while True:
        linker = _llvm().create_lljit_compiler(_target_machine(host, 0), use_jit_link=True, suppress_errors=True)
        for number in range(LIBRARIES):
            yield linker, f"object {number}"


@functools.cache
def _data_layout(host: Machine) -> str:
    return str(_target_machine(host, 0).target_data)


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm

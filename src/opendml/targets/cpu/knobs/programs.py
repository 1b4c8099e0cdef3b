"""Programs: modules, calls and their memory (``code/``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class ProgramKnobs:
    """How a program's text is divided, and what its calls share."""

    module_size: int = 1 << 16
    """Characters of kernels from which on the next ones go to another module, which may be compiled at the same
    time."""

    first_module_size: int = 1 << 13
    """The same for the first module; each has room for twice as much as the one before it. So there is work for
    several threads in small graphs, and large ones have hardly more modules."""

    stacked_scratch_bytes: int = 2048
    """Bytes of a thread's own memory up to which it lies on the stack: small programs are called without other
    memory."""

    long_run: int = 64
    """Calls of one function in a row from which on they are a loop."""

    like_statements: int = 2
    """Statements with folds, or long ones, that share a function if they differ in constants outside of folds alone: a
    load of a number once a point costs nothing beside a sum, and the function of a convolution takes LLVM a tenth of a
    second."""

    long_statement: int = 24
    """Different expressions of a statement from which on it is a long one. Activations of quantised tensors have 30 and
    more, and their functions hundreds of thousands of characters where axes are turned."""

    many_pointers: int = 512
    """Tensors from which on the entry has their pointers where it uses them instead of all at its beginning: LLVM takes
    the longer over each call the more of them are alive."""

    simple_work: int = 0
    """Operations of a statement without folds up to which its code is one loop, point by point."""

    rare_work: int = 1 << 19
    """The same of statements that run once: half a millisecond each, where LLVM takes ten and more for squares that are
    transposed in registers, of which a network has one for every filter."""

    little_work: int = 3 << 15
    """Steps of a statement, with all its repetitions, up to which its code is short (``little_work.py``): up to fifty
    microseconds of one thread."""

    products_a_step: int = 8
    """Multiply-adds that take as long as another step: those of a vector."""

    operations_a_step: int = 16
    """Operations of a point that take as long as bringing what it reads and writes: those of a vector of points, of
    which a processor does two at a time."""

    steps_one_by_one: int = 32
    """Steps that a point counts as of what is done point by point: scans, scatters, orders."""

    steps_a_microsecond: int = 6000
    """Steps, as ``little_work.py`` counts them, that one thread does in a microsecond, from the nearer caches."""

    near_program_bytes: int = 4 << 20
    """Bytes of what a statement reads and writes that are in these caches when it begins."""

    bytes_a_microsecond: int = 12000
    """Others that a thread brings in a microsecond."""

    longest_alone: int = 10000
    """Microseconds that one thread takes for a program from which on it does not matter how long that is: others are
    waked in less."""

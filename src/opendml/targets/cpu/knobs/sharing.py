"""Work items: into how many a kernel is cut, and how threads share them out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class SharingKnobs:
    """Sizes of work items, and what of them any thread may take."""

    serial_work: int = 32768
    """Steps of a kernel below which waking other threads costs more than it saves. With 0 they are waked for whatever
    there is, and each does its own share, however late."""

    work_beside: int = 8192
    """Steps of a kernel from which on it is shared out, too, where others are between the same barriers: nobody has to
    be waked, and while one thread copies so many elements, the others would wait for a few
    microseconds."""

    line_work: int = 8
    """Steps that a point counts as whose store has a line of memory for itself."""

    loads_a_step: int = 8
    """Loads that a point has for each further step that it counts as: another thread has written what they read."""

    items: int = 64
    """Work items that a kernel is cut into at least, where it is large enough: a multiple of usual numbers of
    threads."""

    tile_block: int = 96
    """Points of the tiled axis that one work item covers, so that their operands stay in the second-level cache."""

    large_work: int = 1 << 22
    """Steps of a sum of products from which on it is cut into ``many_items``: they still take some ten microseconds."""

    many_items: int = 128
    """Work items that such a kernel is cut into at least, where it is large enough: even shares for a dozen threads and
    more."""

    shares: int = 16
    """Threads that share out a kernel at most."""

    worth_uneven: float = 1 / 8
    """The part of its time that a sum of products must save with smaller work items, of which there are as many for
    each of the threads: less was not to be seen in networks (16 and 32 threads, Emerald Rapids)."""

    most_even_items: int = 8
    """Such work items for each thread at most: one more is an eighth of its share."""

    item_overhead: int = 1000
    """Cycles that a work item of those takes beside its sums and what it reads for them: MobileNetV2 and SqueezeNet
    took a fiftieth longer with 200 (32 threads)."""

    many_threads: int = 16
    """Threads that share out a kernel, where it matters what each of them does for itself."""

    pooled_work: int = 1 << 18
    """Steps of a kernel from which on some work items of every share are for whichever thread is done first."""

    pooled_part: float = 0.5
    """Which part of a share: by as much threads may fall behind each other, as processors are shared and not equally
    fast: two that are the halves of one core take nearly twice as long as one that has a core for itself, and a machine
    need not say which are. With a quarter ResNet-50 took up to a fifth longer, with three quarters now and then a tenth
    (16 and 32 threads, Emerald Rapids). A thread takes of its own first, since it reads what it wrote in the kernel
    before."""

    pooled_runs: int = 64
    """Runs in which these items are taken at most. Threads that take small items one by one wait for the counter most
    of their time, and read and write memory in pieces; one run is what they may differ by in the end."""

    work_between_looks: int = 1 << 18
    """Steps of a kernel, or of several, after which a thread looks whether it is to go on: some hundred microseconds
    at most, beside which the look costs nothing."""

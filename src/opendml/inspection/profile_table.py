"""Profiles as tables of text."""

from __future__ import annotations

import math
from typing import Final

from opendml.description.quoting import ascii_only, plural
from opendml.inspection.measurements import KernelProfile, Measurements
from opendml.inspection.text_table import Column, Table
from opendml.targets.machine_limits import MachineLimits

TEXT_WIDTH: Final = 140
"""Columns of a table where there is no terminal to tell."""


def profile_table(profile: Measurements) -> Table:
    """A row for each kernel, in the order in which they run. What the machine could do is left out where that is not
    known."""
    has_nodes = any(kernel.nodes for kernel in profile.kernels)
    beside = profile.limits is not None
    numbers = ("Time", "Share", "Bytes", *["of copy"] * beside, "Operations", *["of peak", "Limit"] * beside)
    table = Table(
        [
            Column("#", "right", "keep"),
            Column("Kernel"),
            *([Column("Node", overflow="cut")] if has_nodes else []),
            *(Column(name, "right", "keep") for name in numbers),
        ]
    )
    for kernel in profile.kernels:
        node = [clean(first_node(kernel))] if has_nodes else []
        table.add_row(str(kernel.number), kernel.title, *node, *_cells(profile, kernel))
    return table


def first_node(kernel: KernelProfile) -> str:
    """The name of the first node that a kernel computes, without the place where it was made."""
    return kernel.nodes[0].partition(" (")[0] if kernel.nodes else ""


def clean(text: str) -> str:
    """Text from anywhere without what could steer a terminal or a browser; line breaks stay."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _cells(profile: Measurements, kernel: KernelProfile) -> list[str]:
    times = [format_seconds(kernel.seconds), f"{profile.share(kernel):.1%}"]
    moved, operations = format_quantity(kernel.bytes, "B"), format_quantity(kernel.all_operations, "")
    limits = profile.limits
    if limits is None:
        return [*times, moved, operations]
    of_copy = kernel.bandwidth / limits.bandwidth(kernel.bytes / kernel.repetitions)
    return [*times, moved, f"{of_copy:.0%}", operations, f"{kernel.of_peak(limits):.0%}", kernel.bound_by(limits)]


def summary(profile: Measurements) -> list[str]:
    """What there is to say about the whole program, a line each."""
    moved = sum(kernel.bytes for kernel in profile.kernels)
    by, rest = f" on {profile.device}", "copies and starting kernels"
    if profile.thread_count is not None:
        by, rest = f", {plural(profile.thread_count, 'thread')}", "starting and waking threads"
    return [
        f"{plural(len(profile.kernels), 'kernel')}{by}: "
        f"a run takes {format_seconds(profile.seconds)}, the fastest of {profile.runs}. "
        f"With a clock around every kernel it takes {format_seconds(profile.instrumented_seconds)}: "
        f"{format_seconds(profile.kernel_seconds)} inside of the kernels, the rest for {rest}"
        f"{_disturbed(profile)}",
        f"{format_quantity(moved, 'B')} moved at {format_quantity(moved / profile.seconds, 'B/s')}, "
        f"{_computed(profile)}, "
        f"{format_quantity(profile.temporary_bytes, 'B')} for temporary tensors "
        f"({format_quantity(profile.alive_bytes, 'B')} alive at one time)"
        + (f", {format_quantity(profile.thread_bytes, 'B')} more for each thread" if profile.thread_bytes else ""),
        *([] if profile.limits is None else [_machine(profile.limits)]),
    ]


def _computed(profile: Measurements) -> str:
    """Operations of floating-point numbers, and those of bytes where there are any."""
    operations = sum(kernel.operations for kernel in profile.kernels)
    of_bytes = sum(kernel.integer_operations for kernel in profile.kernels)
    kinds = [(operations, "FLOP", "")] + [(of_bytes, "OP", " of bytes")] * (of_bytes > 0)
    return ", ".join(
        f"{format_quantity(amount, unit)}{what} at {format_quantity(amount / profile.seconds, f'{unit}/s')}"
        for amount, unit, what in kinds
    )


def _machine(limits: MachineLimits) -> str:
    return (
        f"this machine: copies at {format_quantity(limits.copies[-1][1], 'B/s')} (in caches up to "
        f"{format_quantity(max(rate for _, rate in limits.copies), 'B/s')}), "
        f"fused multiply-adds at {format_quantity(limits.fma_peak, 'FLOP/s')}"
        + (f", products of bytes at {format_quantity(limits.byte_peak, 'OP/s')}" if limits.byte_peak < math.inf else "")
    )


def _disturbed(profile: Measurements) -> str:
    """A word where the clocks seem to make a program faster: something else ran beside the plain runs."""
    if profile.instrumented_seconds >= profile.seconds:
        return ""
    return " (less than without clocks: the machine was busier during those runs)"


def profile_text(profile: Measurements) -> str:
    """The summary and the table, in characters that any stream can write."""
    text = "\n".join([clean(profile.title), *summary(profile), profile_table(profile).text(TEXT_WIDTH)])
    return ascii_only(text)


def format_seconds(seconds: float) -> str:
    """``1.25 ms``: three digits and a unit."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{_digits(seconds / factor)} {unit}"
    return f"{_digits(seconds / 1e-9)} ns"


def format_quantity(number: float, unit: str) -> str:
    """``1.25 GB/s``: three digits, a decimal prefix and the unit."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{_digits(number / factor)} {prefix}{unit}"
    return f"{number:.0f} {unit}".rstrip()


def _digits(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:.0f}"

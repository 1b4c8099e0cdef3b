"""What is known of processors that no list of instruction sets tells, and the knobs that fit it.

``TUNING`` was measured on processors with the caches of ``_MEASURED``. Where they are smaller, knobs that say how much
stays in one of them follow; where they are larger, nothing was measured. Of the last cache, which all cores share,
nobody but the system tells: there it was many times as large as any of the knobs that follow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from opendml.llvm.host import Machine
from opendml.targets.cpu.tuning import TUNING, Tuning


class _Caches(NamedTuple):
    """Bytes of the nearest cache of a core, and of its second one."""

    first: int
    second: int


_MEASURED: Final = _Caches(48 << 10, 2 << 20)

_SIZES: Final[Mapping[_Caches, tuple[str, ...]]] = {
    _Caches(32 << 10, 256 << 10): ("haswell", "broadwell", "skylake", "cannonlake"),
    _Caches(32 << 10, 512 << 10): ("znver1", "znver2", "znver3"),
    _Caches(48 << 10, 512 << 10): ("icelake-client", "rocketlake"),
    _Caches(32 << 10, 1 << 20): ("skylake-avx512", "cascadelake", "cooperlake", "znver4"),
    _Caches(48 << 10, 1 << 20): ("znver5",),
    _Caches(48 << 10, 5 << 18): ("icelake-server", "tigerlake", "alderlake"),
    _MEASURED: ("sapphirerapids", "emeraldrapids", "graniterapids"),
}
"""By LLVM's names of processors, as their makers' optimization guides have them. Virtual machines often tell of other
caches than there are, so names come before what the system says."""

_CACHES: Final = {name: caches for caches, names in _SIZES.items() for name in names}

_UNITS: Final[Mapping[str, int]] = {"znver4": 32}
"""Bytes of a register that a unit for multiply-adds, or loads, does in a cycle, where the widest ones take several
("Software Optimization Guide for the AMD Zen4 Microarchitecture")."""

_NEAR_LAST: Final = ("znver1", "znver2", "znver3", "znver4", "znver5")
"""Processors of which a few cores share a last cache that is about as near as another core's second one, and memory is
behind a link that writes half of what it reads: what is written stays there as long as inputs as large fit beside
it, and its lines are not asked for. Blocks between sums and the windows over them may be as large as with a larger
second cache: MobileNetV2 takes an eighth less time (batch of 8) if 96 channels of 112x112 are done by sixteen."""

_FAR_LAST: Final = _SIZES[_MEASURED]
"""Processors whose last cache is that of all cores, and far: squares that are transposed go past it where what is read
and written does not stay in the second caches of those threads. Lines that are written half by half come from there and
go back twice: matrices of 700x700 and 1000x1000 numbers take a quarter to half of the time (1 to 4 threads, Emerald
Rapids). Nor do tiles fill a panel from there, a vector at every step: products of 12 to 48 rows with 8 and 16 MiB take
15 to 45% less time (1 and 2 threads; with 4 of 16 MiB)."""

_READING: Final = ("znver3", "znver4", "znver5")
"""Processors whose cores fetch runs of lines by themselves as fast as memory brings them, and lose by every pause in
reading, as when a stage is emptied: copies by stages of 16 KiB move 27 GB/s, of 4 KiB 40 (Zen 4); with Zen 3 nearest
neighbours take 1.4 ms instead of 2.4, slices that turn rows a fifth less; with Zen 5 these and padding a quarter to a
third less, gathers of rows half. So eight long runs side by side are read twice as fast, on Zen 3 up to four times, as
a kilobyte of one row after the other."""

_READING_SIDES: Final = ("znver3", "znver4")
"""Those of them that need not be asked for runs which points read side by side. Asking for a single one that no fold
goes through takes no time; for two or more, side by side, sums take a twentieth longer, comparisons and quotients a
fifth, Adam's steps a third. Zen 5 gathers along columns in two thirds of the time with it."""

_READING_IN_FOLDS: Final = ("znver4",)
"""Those of them that take time for asking in folds, too (two threads sum 49 MiB up at 25 GB/s instead of 33). On Zen 3
comparisons along rows take a fifth less with it. Eight lines at once that become four or two take a quarter longer than
four, but there a sixth less."""

_ASKING_BEYOND_LAST: Final = ("znver4",)
"""Those of them that read memory faster where they are asked for the next runs side by side: of more than half a last
cache, above which that is most of what comes from memory. Products of 1 to 6 rows with 4096x4096 take a tenth to a
third less time; those that the last cache holds up to a quarter longer (2 threads)."""

_HIDDEN_RESULTS: Final = 160
"""``hidden_results`` where units are half as wide as registers, so that what is made of sums takes twice as many
cycles. Quantised residual sums of 64 channels at 56x56 take 6% less time in tiles half as large, YOLOv8n 1% (Zen 4);
with 240 and more those of 144 channels and SiLU behind them take up to 2% longer."""

_TURNED_PENALTY: Final = 1.0
"""``turned_penalty`` of these, and with few vector registers: products and convolutions that are then done in turned
tiles take a twentieth less time in the mean (Zen 4, and AVX2 on it and on Emerald Rapids), 3x3 ones of 512 channels a
sixth with AVX2, few a twentieth longer."""

_ROW_PREFETCH_DISTANCE: Final = 3072
"""``row_prefetch_distance`` of these: a row with 4096x4096, whose rows lie along the sums, takes a tenth to a third
less time than with one twice as far, and with 1024 bytes a tenth more."""

_SEEING_ROWS: Final = ("znver3",)
"""Processors that see by themselves which rows the next tile of a sum of products reads. Asking for these, too, takes
loads' time: a transformer's encoder takes 7% less time without, BERT-base 3%, ResNet-50 1 to 2%."""

_ROWS_OF_FEW_REGISTERS: Final = 24
"""``fewest_rows`` with few vector registers: whole tiles of 6 rows, and of 4. Of blocks of 56 rows the last two take as
long as four: attention takes a twentieth less time without. Of a bias for each head 54 rows or fewer are read ahead by
the processor, 56 are not: a quarter less time (Zen 3)."""

_LAST_PANEL_OF_FEW_REGISTERS: Final = 16
"""``last_panel`` with few vector registers: two of AVX2, as wide as a tile of 6 rows. A strip of rows of 64 values
would be every fourth line, for which the nearest cache has a fourth of its places: attention's last product takes a
tenth less time (Zen 3)."""

_ASKED_STRIP_ROWS: Final = 12
"""``asked_strip_rows`` of ``_SEEING_ROWS``: two tiles. Asking takes loads' time, and pushes lines out of the nearest
cache: with it attention's products take 5 to 10% longer, those of 16 rows with 1024x1024 two fifths; but those of 4
rows a seventh less."""

_LONG_RUNS: Final = (512, 16384)
"""``run_bytes`` of ``_READING_SIDES``, and of few threads of ``_FAR_LAST``: runs of rows of matrices are as long as
threads leave them. Products of 1 to 8 rows with 4096x4096 take a fifth to nearly half less time than with 1 or 2 KiB
(Zen 3 and Zen 4), with 1024x1024 to 4096x4096 up to a sixth less (Emerald Rapids)."""

_READING_LONG_RUNS: Final = 2
"""Threads of ``_FAR_LAST`` up to which that is so: with 4 and 6 products of 32 rows take a fifth to half longer."""

_WAITING_ROWS: Final = 72
"""``interrupted_rows`` of so few threads: products of 56 to 72 rows with 8 and 16 MiB take 5 to 25% less time than by a
copy of the matrix; of 96 and 128 rows as long."""

_STAGING_ABOVE_LAST: Final = ("znver5",)
"""Processors that gather short rows in stages only where the outputs are larger than the last cache: slices of every
second element of 48 MiB take a tenth to a quarter less time, nearest neighbours a twentieth. Whole rows of as many
bytes are copied past the caches in two thirds of the time."""

_ASKING_FOR_PLANES: Final = ("znver5",)
"""Processors that load while they sum up: half of what begins in a cycle of a tile may be loads. So each tile may ask
for all that the next strip of planes loads, however many tiles there are, and scalars do not delay it: from 256 to 64
and to 128 channels of 56x56 convolutions take a sixth to a quarter less time than with panels of planes, of which the
next ones are copied while nothing is summed (batches of 8)."""

_ASKED_PLANES: Final = 512 << 10
"""``asked_planes_bytes`` of these."""

_ASKED_STRIP: Final = 1.04
"""``asked_strip_penalty`` of these."""

_SHORT_STEPS: Final = 96
"""``short_steps`` of these: of 64 channels 1x1 convolutions of 56x56 that are added to another tensor take a sixth less
time, of 24 channels a quarter (batches of 8, one thread). Elsewhere they take up to a twentieth longer (Emerald
Rapids)."""

_LEAST_FILLING_ROWS: Final = 1 << 62
"""``filling.rows`` of these: runs that tiles wait for come sooner than a vector of each row does for those that fill a
panel. Products of 12 to 48 rows with 1024x1024 to 2048x4096 take 10 to 30% less time."""

_STREAMED_PANEL: Final = 32
"""``streamed_panel`` of these: beside one register of weights each multiply-add loads its scalar, so that loads take as
long as what is done with them, and lines that come from the second-level cache delay them. Beside two 1x1 convolutions
of 7x7 take a tenth less time, 3x3 ones a twentieth."""

_WITH_DENORMALS: Final = _NEAR_LAST
"""x86 processors whose units do denormal numbers themselves, a few cycles later, and not by microcode as Intel's do."""

_IN_PLANES: Final = ("znver5",)
"""Processors of many registers whose channels are planes still: nobody has measured the other layout there."""

_RUN_REGISTERS: Final = 16
"""``most_run_registers`` of these, and of those whose many registers are narrower than a cache line."""

_STORING: Final[Mapping[str, int]] = dict.fromkeys(("skylake-avx512", "cascadelake", "cooperlake"), 8)
"""Processors of which up to so many threads each are limited by the lines that their core has under way, about ten:
8 GB/s a core read, in virtual machines less. A store past the caches keeps one of these for longer than an ordinary one
whose line was asked for, and memory has bandwidth left for reading what is written. (Beyond, that is a third of the
traffic.)"""


def tuning_of(
    machine: Machine, threads: int, name: str | None = None, system: Mapping[int, int] | None = None
) -> Tuning:
    """The knobs for a processor on which programs have ``threads`` threads at most. ``name`` is LLVM's of the processor
    that runs code for ``machine``, where that is an older level; ``system`` its caches by level, as far as the system
    knows them."""
    name, caches = name or machine.cpu_name, system or {}
    near = _caches_of(name, caches)
    tuning = _with_caches(TUNING, near)
    registers = machine.vector_registers * machine.vector_bytes
    tuning = tuning.but(sums_side_by_side_bytes=min(tuning.sums_side_by_side_bytes, 3 * registers // 4))
    if machine.vector_registers < tuning.many_registers:
        tuning = tuning.but(fewest_rows=_ROWS_OF_FEW_REGISTERS, last_panel=_LAST_PANEL_OF_FEW_REGISTERS)
        tuning = tuning.but(turned_penalty=_TURNED_PENALTY)
    has_narrow = machine.vector_bytes < machine.cache_line and machine.vector_registers > _RUN_REGISTERS
    if name in _WITH_DENORMALS or machine.architecture != "x86_64":
        tuning = tuning.but(slow_denormals=False)
    if name in _IN_PLANES or has_narrow:
        tuning = tuning.but(most_run_registers=_RUN_REGISTERS)
    unit = min(_UNITS.get(name, machine.vector_bytes), machine.vector_bytes)
    tuning = tuning.but(issued=tuning.issued * unit // machine.vector_bytes)
    if unit < machine.vector_bytes:
        tuning = tuning.but(hidden_results=_HIDDEN_RESULTS, turned_penalty=_TURNED_PENALTY)
    if name in _NEAR_LAST and len(caches) > 2:
        tuning = tuning.but(streamed_bytes=caches[max(caches)] // 2, stored_prefetch_distance=0)
        kept = TUNING.kept_window_bytes
        tuning = tuning.but(kept_window_bytes=kept, kept_channels_bytes=kept)
        tuning = tuning.but(step_bytes=3 * near.second * threads // 4)
    if name in _FAR_LAST:
        squares = min(tuning.staged_squares_bytes, threads * near.second * 15 // 32)
        filled = min(tuning.filling.bytes, (threads + 1) * near.second)
        tuning = tuning.but(staged_squares_bytes=squares, filling=replace(tuning.filling, bytes=filled))
    is_far_and_few = name in _FAR_LAST and threads <= _READING_LONG_RUNS
    if is_far_and_few:
        tuning = tuning.but(interrupted_rows=_WAITING_ROWS)
    if is_far_and_few or name in _READING_SIDES:
        items = min(tuning.interrupted_items, 2 * threads)
        tuning = tuning.but(interrupted_items=items, run_bytes=_LONG_RUNS)
    if name in _READING:
        tuning = tuning.but(fold_steps_at_once=8, stage_bytes=4096, streamed_row_bytes=2048)
    if name in _READING_SIDES:
        tuning = tuning.but(runs_side_by_side=1)
    if name in _READING_IN_FOLDS:
        tuning = tuning.but(folded_prefetch_distance=0, mixed_registers=4)
    if name in _ASKING_BEYOND_LAST and len(caches) > 2:
        asked = caches[max(caches)] // 2
        tuning = tuning.but(asked_runs_bytes=asked, row_prefetch_distance=_ROW_PREFETCH_DISTANCE)
    if name in _SEEING_ROWS:
        tuning = tuning.but(longest_next_row=0, asked_strip_rows=_ASKED_STRIP_ROWS)
    if name in _STAGING_ABOVE_LAST and len(caches) > 2:
        tuning = tuning.but(staged_bytes=caches[max(caches)])
    if name in _ASKING_FOR_PLANES:
        tuning = tuning.but(asked_planes_bytes=_ASKED_PLANES, asked_strip_penalty=_ASKED_STRIP)
        tuning = tuning.but(streamed_panel=_STREAMED_PANEL, short_steps=_SHORT_STEPS)
        tuning = tuning.but(filling=replace(tuning.filling, rows=_LEAST_FILLING_ROWS))
    if len(caches) > 2:
        filling = replace(tuning.filling, bytes=min(tuning.filling.bytes, caches[max(caches)] // 2))
        tuning = tuning.but(filling=filling)
    if threads <= _STORING.get(name, 0):
        tuning = tuning.but(streamed_bytes=1 << 62, stored_prefetch_distance=1024)
    blocks = tuning.blocks_of_channels * threads // tuning.many_threads
    return tuning.but(blocks_of_channels=blocks, shares=threads)


def _caches_of(name: str, system: Mapping[int, int]) -> _Caches:
    """A processor's near caches, but none larger than those that the knobs were measured with."""
    found = _CACHES.get(name) or _Caches(system.get(1, _MEASURED.first), system.get(2, _MEASURED.second))
    return _Caches(*map(min, found, _MEASURED))


def _with_caches(tuning: Tuning, caches: _Caches) -> Tuning:
    """Knobs for near caches of such sizes. Those that take a large part of what they were measured with shrink as the
    cache does; others at first have a larger part of it."""
    second = caches.second
    return replace(
        tuning,
        near_strip_bytes=tuning.near_strip_bytes * caches.first // _MEASURED.first,
        near_window_bytes=tuning.near_window_bytes * caches.first // _MEASURED.first,
        near_rows_bytes=tuning.near_rows_bytes * caches.first // _MEASURED.first,
        part_bytes=tuning.part_bytes * caches.first // _MEASURED.first,
        waiting_tiles_bytes=tuning.waiting_tiles_bytes * second // _MEASURED.second,
        vector_side_bytes=tuning.vector_side_bytes * second // _MEASURED.second,
        kept_side_bytes=tuning.kept_side_bytes * second // _MEASURED.second,
        tile_side_bytes=tuning.tile_side_bytes * second // _MEASURED.second,
        kept_channels_bytes=min(tuning.kept_channels_bytes, second // 2),
        kept_window_bytes=min(tuning.kept_window_bytes, second // 2),
        few_rows_panel_bytes=min(tuning.few_rows_panel_bytes, second),
        block_elements=min(tuning.block_elements, second // 16),
        vector_side_bytes_of_words=min(tuning.vector_side_bytes_of_words, second // 4),
        far_tile_bytes=min(tuning.far_tile_bytes, second // 4),
        next_row_bytes=min(tuning.next_row_bytes, second // 4),
        transposed_stage_bytes=min(tuning.transposed_stage_bytes, second // 4),
    )

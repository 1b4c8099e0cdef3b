"""Knobs that follow what is known of a processor: its caches, and how wide its units are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execution import run_operator

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression.statements import Compute
from opendml.llvm.host import machine_of
from opendml.targets.cpu.caches import caches_in
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.microarchitectures import tuning_of
from opendml.targets.cpu.schedule import schedule_compute
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING, Tuning

THREADS = TUNING.many_threads
SYSTEM = {1: 32 << 10, 2: 1 << 20, 3: 32 << 20}


def tuned(name: str, level: str = "avx512", system: Mapping[int, int] | None = None) -> Tuning:
    return tuning_of(replace(machine_of("x86_64-unknown-linux-gnu", level), cpu_name=name), THREADS, system=system)


@pytest.mark.parametrize("name", ["sapphirerapids", "emeraldrapids", "somebody's"])
def test_what_was_measured_stays_where_caches_are_as_large_or_unknown(name: str) -> None:
    assert tuned(name) == tuned(name, system={1: 128 << 10, 2: 16 << 20}) == TUNING


@pytest.mark.parametrize(
    ("name", "second", "part"),
    [("skylake", 256 << 10, 8), ("znver3", 512 << 10, 4), ("cascadelake", 1 << 20, 2), ("znver4", 1 << 20, 2)],
)
def test_what_is_to_stay_in_a_cache_fits_into_smaller_ones(name: str, second: int, part: int) -> None:
    """Whatever the system says: virtual machines tell of caches that there are not."""
    found = tuned(name, system={1: 32 << 10, 2: 4 << 20})
    assert found.vector_side_bytes * part == TUNING.vector_side_bytes
    assert found.near_strip_bytes == TUNING.near_strip_bytes * 2 // 3
    for knob in (
        "kept_channels_bytes",
        "kept_window_bytes",
        "few_rows_panel_bytes",
        "tile_side_bytes",
        "transposed_stage_bytes",
    ):
        assert getattr(found, knob) <= min(second, getattr(TUNING, knob))
    assert 2 * 4 * found.block_elements <= second
    assert 3 * found.next_row_bytes < second


def test_of_other_processors_the_system_knows() -> None:
    found = tuned("somebody's", system=SYSTEM)
    assert found.vector_side_bytes == TUNING.vector_side_bytes // 2
    assert found.near_strip_bytes == TUNING.near_strip_bytes * 2 // 3
    assert found.streamed_bytes == TUNING.streamed_bytes


def test_a_last_cache_that_is_near_keeps_what_is_written() -> None:
    assert tuned("znver4", system=SYSTEM).streamed_bytes == 16 << 20
    assert tuned("znver4", system={1: 32 << 10}).streamed_bytes == tuned("znver4").streamed_bytes
    assert tuned("znver4").streamed_bytes == tuned("icelake-server", system=SYSTEM).streamed_bytes
    assert tuned("znver4", system=SYSTEM).stored_prefetch_distance == 0 < TUNING.stored_prefetch_distance
    assert tuned("znver4", system=SYSTEM).kept_window_bytes > tuned("skylake-avx512", system=SYSTEM).kept_window_bytes
    assert tuned("znver4", system=SYSTEM).kept_channels_bytes > TUNING.kept_channels_bytes


def test_blocks_of_few_registers_have_whole_tiles() -> None:
    assert tuned("znver3", "avx2").fewest_rows % 6 == tuned("znver3", "avx2").fewest_rows % 4 == 0
    assert tuned("znver4").fewest_rows == TUNING.fewest_rows
    assert tuned("znver3", "avx2").last_panel == tuned("haswell", "avx2").last_panel == 2 * 8
    assert tuned("znver4").last_panel == TUNING.last_panel


def test_steps_whose_weights_do_not_stay_near_are_told_by_the_second_cache_of_all_threads() -> None:
    machine = replace(machine_of("x86_64-unknown-linux-gnu", "avx512"), cpu_name="znver4")
    limits = [tuning_of(machine, threads, system=SYSTEM).step_bytes for threads in (1, 2, THREADS)]
    assert limits == [threads * (3 << 18) for threads in (1, 2, THREADS)]
    assert tuned("icelake-server", system=SYSTEM).step_bytes == TUNING.step_bytes


@pytest.mark.parametrize(("name", "level"), [("znver3", "avx2"), ("znver4", "avx512"), ("znver5", "avx512")])
def test_a_core_that_reads_runs_by_itself_pauses_less(name: str, level: str) -> None:
    found = tuned(name, level)
    assert found.stage_bytes < TUNING.stage_bytes
    assert found.streamed_row_bytes * 2 <= found.stage_bytes  # no row is too long for both
    assert found.fold_steps_at_once > TUNING.fold_steps_at_once == 0
    assert tuned("icelake-server", system=SYSTEM).stage_bytes == TUNING.stage_bytes


def test_squares_are_staged_where_the_second_caches_do_not_hold_them_and_the_last_one_is_far() -> None:
    """As many threads as there are have as many of them."""

    def least(name: str, threads: int) -> int:
        machine = replace(machine_of("x86_64-unknown-linux-gnu", "avx512"), cpu_name=name)
        return tuning_of(machine, threads, system=SYSTEM).staged_squares_bytes

    assert [least("emeraldrapids", threads) for threads in (1, 2, 4)] == [n * (15 << 16) for n in (1, 2, 4)]
    assert least("emeraldrapids", THREADS) == TUNING.staged_squares_bytes
    assert {least(name, 1) for name in ("znver5", "skylake", "somebody's")} == {TUNING.staged_squares_bytes}


@pytest.mark.parametrize(("threads", "most"), [(1, 4 << 20), (2, 6 << 20), (4, 10 << 20), (8, 16 << 20)])
def test_panels_are_filled_from_the_second_caches_where_the_last_one_is_far(threads: int, most: int) -> None:
    machine = machine_of("x86_64-unknown-linux-gnu", "avx512")
    here, other = (replace(machine, cpu_name=name) for name in ("emeraldrapids", "icelake-server"))
    assert tuning_of(here, threads).filling == replace(TUNING.filling, bytes=most)
    assert tuning_of(other, threads).filling == TUNING.filling


@pytest.mark.parametrize(("threads", "items"), [(1, 2), (2, 4), (3, TUNING.interrupted_items)])
def test_one_or_two_threads_read_long_runs_where_the_last_cache_is_far(threads: int, items: int) -> None:
    machine = replace(machine_of("x86_64-unknown-linux-gnu", "avx512"), cpu_name="emeraldrapids")
    found = tuning_of(machine, threads)
    assert found.interrupted_items == items
    assert (found.run_bytes > TUNING.run_bytes) == (items < TUNING.interrupted_items)
    assert (found.interrupted_rows > TUNING.interrupted_rows) == (items < TUNING.interrupted_items)


def test_short_rows_are_staged_where_no_cache_holds_them() -> None:
    """Slices of 24 MiB beside a last cache of 32: whole rows go past the caches, short ones nowhere."""
    here, other = tuned("znver5", system=SYSTEM), tuned("znver4", system=SYSTEM)
    assert here.staged_bytes == SYSTEM[3] == 2 * here.streamed_bytes
    assert other.staged_bytes == 0
    machine = replace(machine_of("x86_64-unknown-linux-gnu", "avx512"), cpu_name="znver5")
    sizes = [16, 64, 112, 112]
    desc = operators.Slice1(
        input_tensor=TensorDesc("float32", sizes),
        output_tensor=TensorDesc("float32", [*sizes[:3], 56]),
        input_window_offsets=[0] * 4,
        input_window_sizes=sizes,
        input_window_strides=[1, 1, 1, -2],
    )
    (statement,) = desc.define().statements
    assert isinstance(statement, Compute)
    for tuning, is_staged in ((here, False), (other, True)):
        kernel = schedule_compute(statement, CpuTarget(machine, tuning), in_place=False)
        assert isinstance(kernel, ComputeKernel) and (kernel.stage is not None) == is_staged


@pytest.mark.parametrize(("name", "level"), [("znver3", "avx2"), ("znver4", "avx512")])
def test_such_a_core_is_not_asked_for_runs_side_by_side(name: str, level: str) -> None:
    assert tuned(name, level).runs_side_by_side == 1 < tuned("znver5").runs_side_by_side


def test_folds_are_asked_for_where_that_takes_no_time() -> None:
    assert tuned("znver4").folded_prefetch_distance == 0 < tuned("znver3", "avx2").folded_prefetch_distance
    assert tuned("znver4").mixed_registers < tuned("znver3", "avx2").mixed_registers == TUNING.mixed_registers


@pytest.mark.parametrize(("name", "level"), [("znver3", "avx2"), ("znver4", "avx512")])
def test_such_a_core_reads_rows_in_runs_as_long_as_threads_leave_it(name: str, level: str) -> None:
    machine = replace(machine_of("x86_64-unknown-linux-gnu", level), cpu_name=name)
    few, many = (tuning_of(machine, threads) for threads in (2, THREADS))
    assert few.interrupted_items < many.interrupted_items == TUNING.interrupted_items
    assert few.run_bytes[1] == many.run_bytes[1] > TUNING.run_bytes[1]


def test_what_fills_panels_comes_from_a_last_cache_and_not_from_memory() -> None:
    for last in (8 << 20, 32 << 20, 256 << 20):
        found = tuned("somebody's", system={1: 48 << 10, 2: 2 << 20, 3: last}).filling
        assert found == replace(TUNING.filling, bytes=min(TUNING.filling.bytes, last // 2))
    assert tuned("somebody's", system={1: 48 << 10, 2: 2 << 20}) == TUNING


def test_units_that_are_half_as_wide_begin_half_as_many() -> None:
    assert [tuned("znver4", level).issued for level in ("avx512", "avx2", "baseline")] == [1, 2, 2]
    assert tuned("znver5").issued == 2


def test_an_older_level_has_the_caches_of_the_processor_that_it_runs_on() -> None:
    machine = machine_of("x86_64-unknown-linux-gnu", "avx2")
    few = tuned("haswell", "avx2")
    assert tuning_of(machine, THREADS) == replace(
        TUNING,
        fewest_rows=few.fewest_rows,
        last_panel=few.last_panel,
        sums_side_by_side_bytes=few.sums_side_by_side_bytes,
        turned_penalty=few.turned_penalty,
    )
    assert tuning_of(machine, THREADS, "znver3") == tuned("znver3", "avx2")


@pytest.mark.parametrize("name", ["skylake", "znver2", "znver4", "znver5"])
def test_results_are_the_same(name: str) -> None:
    """Interpreted and run, with panels and blocks of the sizes that another processor has."""
    random = np.random.default_rng(3)
    sizes: list[list[int]] = [[2, 130, 9, 9], [70, 130, 3, 3], [2, 70, 9, 9]]
    x, weights, out = (TensorDesc("float32", size) for size in sizes)
    desc = operators.Convolution(
        input_tensor=x,
        filter_tensor=weights,
        output_tensor=out,
        mode="CROSS_CORRELATION",
        direction="FORWARD",
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[1, 1],
        end_padding=[1, 1],
        output_padding=[0, 0],
        group_count=1,
    )
    arrays: list[Any] = [random.standard_normal(size, np.float32) for size in sizes[:2]]
    run_operator(desc, [*arrays, None], tuning=tuned(name, system=SYSTEM))


def listed(root: Path, caches: Mapping[int, tuple[str, str, str]]) -> Path:
    """A folder in which the system lists caches: type, level and size."""
    for number, texts in caches.items():
        folder = root / "sys/devices/system/cpu/cpu0/cache" / f"index{number}"
        folder.mkdir(parents=True)
        for name, text in zip(("type", "level", "size"), texts, strict=True):
            (folder / name).write_text(text)
    return root


def test_what_the_system_lists(tmp_path: Path) -> None:
    caches = {
        0: ("Data\n", "1\n", "32K\n"),
        1: ("Instruction\n", "1\n", "64K\n"),
        2: ("Unified\n", "2\n", "1024K\n"),
        3: ("Unified\n", "3\n", "32768K\n"),
    }
    assert caches_in(listed(tmp_path, caches)) == SYSTEM
    assert caches_in(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    "texts",
    [
        ("Data", "1", "0K"),
        ("Data", "1", "-32K"),
        ("Data", "1", "32"),
        ("Data", "1", "9" * 30 + "K"),
        ("Data", "1", "\u0663K"),
        ("Data", "9", "32K"),
        ("Data", "", "32K"),
        ("Trace", "1", "32K"),
    ],
)
def test_what_the_system_cannot_mean_is_nothing(tmp_path: Path, texts: tuple[str, str, str]) -> None:
    assert caches_in(listed(tmp_path, {0: texts})) == {}


def test_rows_that_a_processor_sees_by_itself_are_not_asked_for() -> None:
    assert tuned("znver3", "avx2").longest_next_row == 0 < tuned("haswell", "avx2").longest_next_row
    assert tuned("znver3", "avx2").asked_strip_rows < tuned("haswell", "avx2").asked_strip_rows
    assert tuned("znver4").longest_next_row == TUNING.longest_next_row


def test_results_take_time_where_units_are_half_as_wide_as_registers() -> None:
    assert tuned("znver4").hidden_results < tuned("znver4", "avx2").hidden_results == TUNING.hidden_results
    assert tuned("znver5").hidden_results == TUNING.hidden_results


def test_tiles_are_turned_without_a_penalty_where_units_are_narrow_or_registers_few() -> None:
    free = tuned("znver4").turned_penalty
    assert free == tuned("znver3", "avx2").turned_penalty == tuned("emeraldrapids", "avx2").turned_penalty
    assert free < tuned("emeraldrapids").turned_penalty == tuned("znver5").turned_penalty == TUNING.turned_penalty


def test_runs_of_few_rows_are_asked_for_where_the_last_cache_does_not_hold_them() -> None:
    here, other = tuned("znver4", system=SYSTEM), tuned("znver5", system=SYSTEM)
    assert here.asked_runs_bytes == SYSTEM[3] // 2 < other.asked_runs_bytes == TUNING.asked_runs_bytes
    assert here.row_prefetch_distance < other.row_prefetch_distance == TUNING.row_prefetch_distance
    assert tuned("znver4").asked_runs_bytes == TUNING.asked_runs_bytes


def test_a_processor_that_loads_while_it_sums_up_asks_for_planes() -> None:
    """Sums of 256 channels of several images: the next strip is asked for instead, and weights fill two registers."""
    here, other = tuned("znver5", system=SYSTEM), tuned("znver4", system=SYSTEM)
    assert here.asked_planes_bytes > other.asked_planes_bytes == 0
    assert here.streamed_panel == 2 * other.streamed_panel
    assert here.short_steps > other.short_steps == 0
    assert here.asked_strip_penalty < other.asked_strip_penalty == other.far_penalty


def test_denormal_numbers_are_slow_on_processors_of_one_maker() -> None:
    assert all(tuned(name).slow_denormals for name in ("emeraldrapids", "skylake-avx512", "somebody's"))
    assert not any(tuned(name).slow_denormals for name in ("znver3", "znver4", "znver5"))
    machine = machine_of("aarch64-unknown-linux-gnu", "baseline")
    assert not tuning_of(machine, THREADS, "neoverse-v1").slow_denormals

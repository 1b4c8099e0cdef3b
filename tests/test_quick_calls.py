"""Calls of functions on arrays of a layout seen before, which take a way of their own."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from calls import numbers

import opendml as dml
from opendml.functions import core
from opendml.targets.cpu.runtime import array_calls

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _forget_programs() -> Iterator[None]:
    core.PROGRAMS.clear()
    yield
    core.PROGRAMS.clear()


def seen(array: Array, out: Any = None) -> None:
    """Calls until the next one can be quick."""
    for _ in range(2):
        dml.add(array, array, out=out)
    assert len(core._QUICK) == 1


def unaligned(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    memory[...] = x
    return memory


def test_repeated_calls_are_quick_and_new() -> None:
    x = numbers((3, 5))
    seen(x)
    results = [dml.add(x, x) for _ in range(3)]
    assert len(core._QUICK) == 1
    for result in results:
        np.testing.assert_array_equal(result, x + x)
        assert result.flags.writeable
        assert result.flags.c_contiguous
        assert result.__array_interface__["data"][0] % 64 == 0
    assert not np.shares_memory(results[0], results[1])


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype("int32"),
        lambda x: x.astype(">f4"),
        lambda x: x[:, ::-1],
        lambda x: x[:2],
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: np.broadcast_to(x[0], (3, 5)),
        unaligned,
        lambda x: x[0].tolist(),
        lambda x: np.float32(2),
        lambda x: np.array(3.0),
        lambda x: True,
        np.ma.MaskedArray,
    ],
)
def test_another_layout_is_another_call(change: Any) -> None:
    x = numbers((3, 5))
    for array in (x, x.copy()):
        seen(x)
        other = change(array)
        one = x[:2] if getattr(other, "shape", ()) == (2, 5) else x
        one = one.astype("int32") if getattr(other, "dtype", None) == np.int32 else one
        for _ in range(3):
            np.testing.assert_array_equal(dml.add(one, other), one + np.asarray(other, one.dtype))
        core.PROGRAMS.clear()


def test_read_only_inputs_and_outputs() -> None:
    x = numbers((3, 5))
    out = np.empty_like(x)
    seen(x, out)
    x.flags.writeable = False
    dml.add(x, x, out=out)
    np.testing.assert_array_equal(out, x + x)
    out.flags.writeable = False
    with pytest.raises(dml.BindingError, match="read-only"):
        dml.add(x, x, out=out)


def test_overlapping_outputs() -> None:
    memory = numbers((7, 5))
    x, out = memory[:3], memory[4:]
    seen(x, out)
    for part in (memory[1:4], memory[2:5]):
        before = memory.copy()
        with pytest.raises(dml.BindingError, match="overlaps"):
            dml.add(x, x, out=part)
        np.testing.assert_array_equal(memory, before)
    expected = x + x
    dml.add(x, x, out=x)  # An operator that works in place may write to the very same elements.
    np.testing.assert_array_equal(x, expected)


def test_outputs_that_are_not_aligned() -> None:
    x = numbers((3, 5))
    out = np.empty_like(x)
    seen(x, out)
    with pytest.raises(dml.BindingError, match="aligned"):
        dml.add(x, x, out=unaligned(out))


def test_objects_like_arrays_are_not_taken_for_arrays() -> None:
    class Similar:
        def __init__(self, array: Array) -> None:
            self.array, self.dtype, self.shape, self.strides = array, array.dtype, array.shape, array.strides

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    x = numbers((3, 5))
    seen(x)
    np.testing.assert_array_equal(dml.add(Similar(x), Similar(x)), x + x)


def test_operands_that_are_absent_and_numbers() -> None:
    image, filter = numbers((1, 2, 4, 4)), numbers((3, 2, 3, 3), seed=1)
    first = dml.convolution(image, filter)
    for _ in range(3):
        np.testing.assert_array_equal(dml.convolution(image, filter), first)
        for number in (0.5, 2, -0.0, 0.0):
            np.testing.assert_array_equal(dml.multiply(image, number), image * np.float32(number))
            signs = np.signbit(dml.multiply(np.abs(image) + 1, number))
            assert signs.all() == np.signbit(number)


def test_threads_share_a_quick_call() -> None:
    arrays = [numbers((40, 50), seed=seed) for seed in range(4)]
    seen(arrays[0])
    failures: list[int] = []

    def work(number: int) -> None:
        x = arrays[number]
        if not all(np.array_equal(dml.add(x, x), x + x) for _ in range(100)):
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_native_functions_are_made_of_lives_for_ever() -> None:
    """Functions point to it; of two threads that make it at once, a cache keeps only one's."""
    others = array_calls._array_calls.__wrapped__()
    made = [weakref.ref(definition) for kind in others for definition in kind]
    del others
    gc.collect()
    assert all(definition() is not None for definition in made)


def test_the_table_is_bounded() -> None:
    x = np.ones(1, np.float32)
    core._QUICK.update({("other", number): None for number in range(core.MAXIMUM_PROGRAMS)})  # type: ignore[misc]
    for _ in range(2):
        dml.add(x, x)
    assert len(core._QUICK) == 1

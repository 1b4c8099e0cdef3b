"""Signals while a program runs: handlers run, and what they raise stops the dispatch."""

from __future__ import annotations

import os

import pytest
from test_processes import run_script

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs timers that send signals")

PRELUDE = """
import signal, sys, threading
import numpy as np
import opendml as dml
from opendml import operators

def chain(threads, size=1500, length=24):
    graph = dml.Graph(dml.Device(thread_count=threads))
    x = graph.input("float32", [1, 1, size, size])
    y = x
    for _ in range(length):
        y = dml.gemm(y, x)
    return graph.compile(y)

def bound(program, size=1500):
    out = np.full((1, 1, size, size), np.nan, np.float32)
    return program.bind(np.full((1, 1, size, size), 1 / size, np.float32), out=out), out

def after(seconds, handler):
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)

class Stop(Exception):
    pass

def stop(*_):
    raise Stop

def stopped(call):
    after(0.02, stop)
    try:
        call()
    except Stop:
        return True
    return False

threads = int(sys.argv[1])
"""

BETWEEN_WORK_ITEMS = """
call, out = bound(chain(threads))
assert stopped(call)
assert np.isnan(out).any(), "all of it was done"
call()
assert np.allclose(out, 1 / 1500, rtol=0.01), "the next call is whole"
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""

CTRL_C = """
call, out = bound(chain(threads))
def kick(*_):
    signal.raise_signal(signal.SIGINT)
after(0.02, kick)
try:
    call()
except KeyboardInterrupt:
    assert np.isnan(out).any()
else:
    raise AssertionError
"""

BETWEEN_KERNELS = """
x = dml.TensorDesc("float32", [1, steps, 1, 1])
weight = dml.TensorDesc("float32", [1, 1, width, 1])
recurrence = dml.TensorDesc("float32", [1, 1, width, width])
last = dml.TensorDesc("float32", [1, 1, 1, width])
desc = operators.Rnn(
    input_tensor=x, weight_tensor=weight, recurrence_tensor=recurrence, output_single_tensor=last,
    activation_descs=[operators.ActivationTanh()], direction="FORWARD",
)
program = dml.Device(thread_count=threads).compile(desc)
arrays = [None if b.desc is None else np.zeros(b.desc.sizes, np.float32) for b in program.inputs]
outputs = [None if b.desc is None else np.full(b.desc.sizes, np.nan, np.float32) for b in program.outputs]
call = program.bind(arrays, outputs)
assert stopped(call)
call()
assert all((out == 0).all() for out in outputs if out is not None)
"""

HANDLERS_THAT_RETURN = """
call, out = bound(chain(threads))
done, seen = [], []
after(0.02, lambda *_: seen.append(list(done)))
call()
done.append(True)
assert seen == [[]], "the handler runs while the program does"
assert np.allclose(out, 1 / 1500, rtol=0.01)
"""

OTHER_THREADS = """
call, out = bound(chain(threads))
done = threading.Event()
threading.Thread(target=lambda: (call(), done.set())).start()
assert stopped(done.wait)
done.wait()
assert np.allclose(out, 1 / 1500, rtol=0.01), "what another thread runs is its own"
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("script", "threads"),
    [
        (BETWEEN_WORK_ITEMS, 2),
        ("steps, width = 16_000_000, 4" + BETWEEN_KERNELS, 1),
        ("steps, width = 16_000_000, 4" + BETWEEN_KERNELS, 2),  # the first thread does all
        ("steps, width = 80_000, 512" + BETWEEN_KERNELS, 2),  # a barrier a step
    ],
    ids=["work items", "kernels of one thread", "kernels of the first of two", "kernels of two"],
)
def test_a_dispatch_is_stopped_and_can_be_done_again(script: str, threads: int) -> None:
    run_script((PRELUDE + script).replace("sys.argv[1]", str(threads)))


@pytest.mark.sampled
@pytest.mark.parametrize("script", [CTRL_C, HANDLERS_THAT_RETURN, OTHER_THREADS], ids=["ctrl-c", "returns", "threads"])
def test_handlers(script: str) -> None:
    run_script((PRELUDE + script).replace("sys.argv[1]", "2"))

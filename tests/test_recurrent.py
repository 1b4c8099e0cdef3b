"""RNN, GRU and LSTM against plain loops in float64, ONNX's reference evaluator, ONNX Runtime and PyTorch."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import Array, frames, inputs, outputs, random_array, run_operator, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.enums import RecurrentNetworkDirection
from opendml.description.tensor import TensorDesc
from opendml.expression.printer import format_definition
from opendml.expression.statements import stores_of
from opendml.llvm.host import host_machine, machine_of
from opendml.llvm.native import assembly
from opendml.llvm.stacks import STACK_BOUND
from opendml.loops.nest_printer import format_nest
from opendml.operators.recurrent import Recurrent
from opendml.targets.cpu.code.interface import ENTRY
from opendml.targets.cpu.code.modules import Support
from opendml.targets.cpu.code.program_code import program_code
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import CpuTarget, host_target
from opendml.targets.cpu.tuning import TUNING, Tuning

bounded = examples(20)

TANH, RELU, SIGMOID = operators.ActivationTanh(), operators.ActivationRelu(), operators.ActivationSigmoid()
ELU, HARDMAX = operators.ActivationElu(alpha=0.5), operators.ActivationHardmax()


def hardmax(x: Array) -> Array:
    """1 at the first maximum of a row."""
    return np.asarray(np.arange(x.shape[-1]) == x.argmax(-1)[..., None], np.float64)


FUNCTIONS: dict[Any, Callable[[Array], Array]] = {
    TANH.type: np.tanh,
    RELU.type: lambda x: np.maximum(x, 0),
    SIGMOID.type: lambda x: 1 / (1 + np.exp(-x)),
    ELU.type: lambda x: np.where(x >= 0, x, 0.5 * np.expm1(x)),
    HARDMAX.type: hardmax,
}
ACTIVATIONS = (TANH, RELU, SIGMOID, ELU)

each_operator = pytest.mark.parametrize("operator", [operators.Rnn, operators.Gru, operators.Lstm])
TARGET = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))


class Loop:
    """One direction of a network for one item of a batch, as the specification has it: a vector at a time."""

    def __init__(self, desc: Any, arrays: dict[str, Array | None], number: int) -> None:
        self.desc, self.hidden = desc, desc.recurrence_tensor.sizes[3]
        each = len(desc.activation_descs) // desc.direction_count
        given = desc.activation_descs[number * each : (number + 1) * each]
        self.functions = [FUNCTIONS[activation.type] for activation in given]

        def of(name: str) -> Array | None:
            found = arrays.get(name)
            return None if found is None else found.astype(np.float64)

        def parts(x: Array | None, count: int) -> list[Array]:
            return [np.zeros(self.hidden)] * count if x is None else list(np.split(x, count))

        weights, recurrence, bias = of("WeightTensor"), of("RecurrenceTensor"), of("BiasTensor")
        assert weights is not None and recurrence is not None
        gates = weights.shape[2] // self.hidden
        self.w, self.r = parts(weights[0, number], gates), parts(recurrence[0, number], gates)
        own = parts(None if bias is None else bias[0, 0, number], 2 * gates)
        self.wb, self.rb = own[:gates], own[gates:]
        peepholes = of("PeepholeTensor")
        self.p = parts(None if peepholes is None else peepholes[0, 0, number], 3)

    def gate(self, number: int, x: Array, h: Array) -> Array:
        return np.asarray(x @ self.w[number].T + h @ self.r[number].T + self.wb[number] + self.rb[number])

    def rnn(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        (f,) = self.functions
        return f(self.gate(0, x, h)), c

    def gru(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f, g = self.functions
        z, r = f(self.gate(0, x, h)), f(self.gate(1, x, h))
        if self.desc.linear_before_reset:
            candidate = g(x @ self.w[2].T + r * (h @ self.r[2].T + self.rb[2]) + self.wb[2])
        else:
            candidate = g(self.gate(2, x, r * h))
        return (1 - z) * candidate + z * h, c

    def lstm(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f, g, shown = self.functions
        limit = self.desc.clip_threshold if self.desc.use_clip_threshold else np.inf

        def clip(v: Array) -> Array:
            return np.clip(v, -limit, limit)

        i = f(clip(self.gate(0, x, h) + self.p[0] * c))
        forget = 1 - i if self.desc.couple_input_forget else f(clip(self.gate(2, x, h) + self.p[2] * c))
        c = forget * c + i * g(clip(self.gate(3, x, h)))
        o = f(clip(self.gate(1, x, h) + self.p[1] * c))
        return o * shown(c), c


def recur(desc: Any, arrays: Sequence[Array | None]) -> list[Array]:
    """The steps of the specification, one item of the batch at a time: all states, the last ones, the last cells."""
    named = dict(zip([name for name, _ in desc.inputs()], arrays, strict=True))
    _, length, batch, _ = desc.input_tensor.sizes
    hidden, directions = desc.recurrence_tensor.sizes[3], desc.direction_count
    sequence, single = np.zeros((length, directions, batch, hidden)), np.zeros((1, directions, batch, hidden))
    cells, lengths = single.copy(), named["SequenceLengthsTensor"]
    for d, b in itertools.product(range(directions), range(batch)):
        loop = Loop(desc, named, d)
        initial = (named.get(name) for name in ("HiddenInitTensor", "CellMemInitTensor"))
        h, c = (np.zeros(hidden) if x is None else x[0, d, b].astype(np.float64) for x in initial)
        times = list(range(length if lengths is None else min(int(lengths[0, 0, 0, b]), length)))
        if desc.direction == RecurrentNetworkDirection.BACKWARD or d == 1:
            times.reverse()
        for time in times:
            x = named["InputTensor"]
            assert x is not None
            h, c = getattr(loop, desc.type.name.lower())(x[0, time, b].astype(np.float64), h, c)
            sequence[time, d, b] = h
        single[0, d, b], cells[0, d, b] = h, c
    return [sequence, single, cells]


def network(
    operator: type[Any],
    sizes: tuple[int, int, int, int],
    direction: str = "FORWARD",
    data_type: str = "float32",
    *,
    optional: Sequence[str] = (),
    **fields: Any,
) -> Any:
    """A network of {steps, batch, inputs, units} with packed tensors, all outputs, and the ``optional`` inputs."""
    length, batch, width, hidden = sizes
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    shapes = shapes_of(operator, length, batch, width, hidden, directions)
    usual: dict[str, Any] = {"linear_before_reset": False, "couple_input_forget": False, "use_clip_threshold": False}
    usual |= {"clip_threshold": 0.0, "direction": direction}
    usual["activation_descs"] = {1: (TANH,), 2: (SIGMOID, TANH), 3: (SIGMOID, TANH, TANH)}[
        operator.activations_each
    ] * directions
    for name, field in operator.fields.items():
        if name in shapes and (not field.optional or name in optional or name.startswith("output")):
            kind = "uint32" if name == "sequence_lengths_tensor" else data_type
            usual[name] = TensorDesc(kind, shapes[name])
    return operator(**{name: value for name, value in usual.items() if name in operator.fields} | fields)


def shapes_of(
    operator: type[Any], length: int, batch: int, width: int, hidden: int, directions: int
) -> dict[str, list[int]]:
    """The sizes of all tensors."""
    rows, state = operator.gates * hidden, [1, directions, batch, hidden]
    shapes = {
        "input_tensor": [1, length, batch, width],
        "weight_tensor": [1, directions, rows, width],
        "recurrence_tensor": [1, directions, rows, hidden],
        "bias_tensor": [1, 1, directions, 2 * rows],
        "hidden_init_tensor": state,
        "cell_mem_init_tensor": state,
        "sequence_lengths_tensor": [1, 1, 1, batch],
        "peephole_tensor": [1, 1, directions, 3 * hidden],
        "output_sequence_tensor": [length, directions, batch, hidden],
        "output_single_tensor": state,
        "output_cell_single_tensor": state,
    }
    return {name: shape for name, shape in shapes.items() if name in operator.fields}


@st.composite
def networks(draw: st.DrawFn, operator: type[Any]) -> Any:
    """Networks of all directions, with and without the optional tensors, in all layouts."""
    length, batch, width = (draw(st.integers(1, 4)) for _ in range(3))
    hidden = draw(st.sampled_from([1, 2, 3, 5, 33, 64, 70]))
    direction = draw(st.sampled_from(RecurrentNetworkDirection))
    directions = 2 if direction == RecurrentNetworkDirection.BIDIRECTIONAL else 1
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    shapes = shapes_of(operator, length, batch, width, hidden, directions)
    made = [name for name in shapes if name.startswith("output")]
    wanted = draw(st.sets(st.sampled_from(made), min_size=1))
    fields: dict[str, Any] = {"direction": direction}
    for name, shape in shapes.items():
        if name in made:
            fields[name] = draw(outputs(data_type, shape)) if name in wanted else None
        elif not operator.fields[name].optional or draw(st.booleans()):
            fields[name] = draw(inputs("UINT32" if name == "sequence_lengths_tensor" else data_type, shape))
    count = operator.activations_each * directions
    fields["activation_descs"] = [draw(st.sampled_from(ACTIVATIONS)) for _ in range(count)]
    for name in ("linear_before_reset", "couple_input_forget", "use_clip_threshold"):
        if name in operator.fields:
            fields[name] = draw(st.booleans())
    if "clip_threshold" in operator.fields:
        fields["clip_threshold"] = draw(st.sampled_from([0.5, 0.0, 3.0]))
    return operator(**fields)


def arrays_of(desc: Recurrent, seed: int) -> list[Array | None]:
    """Small values, and lengths from 0 to more than there are steps."""
    arrays: list[Array | None] = []
    for number, (name, tensor) in enumerate(desc.inputs()):
        if tensor is None:
            arrays.append(None)
        elif name == "SequenceLengthsTensor":
            repeated = random_array(tensor, seed + number, special=False).astype(np.uint32)
            arrays.append(repeated % np.uint32(desc.input_tensor.sizes[1] + 2))
        else:
            values = random_array(tensor, seed + number, special=False)
            share = 4 if name in ("InputTensor", "HiddenInitTensor") else 4 * desc.recurrence_tensor.sizes[3] ** 0.5
            arrays.append((values / share).astype(values.dtype))
    return arrays


def check(desc: Any, arrays: list[Array | None], tuning: Tuning = TUNING) -> None:
    """Interpreted, compiled, by any number of threads, between guard pages: as the loop."""
    tolerance = 1e-5 if desc.input_tensor.data_type.name == "FLOAT32" else 2e-3
    for actual, expected in zip(run_operator(desc, arrays, tuning=tuning), recur(desc, arrays), strict=False):
        if actual is not None:
            scale = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


@each_operator
@bounded
@given(data=st.data(), seed=seeds, has_room=st.booleans(), step_bytes=st.sampled_from([TUNING.step_bytes, 1 << 11]))
def test_networks(operator: type[Any], data: st.DataObject, seed: int, has_room: bool, step_bytes: int) -> None:
    desc = data.draw(networks(operator))
    tuning = TUNING if has_room else replace(TUNING, projected_growth=0, projected_elements=0)
    check(desc, arrays_of(desc, seed), replace(tuning, step_bytes=step_bytes))


ALL = ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor", "sequence_lengths_tensor", "peephole_tensor")


@each_operator
def test_hardmax(operator: type[Any]) -> None:
    """HARDMAX is over the units of a step: forward at the first place for activations, backward at the others."""
    each = operator.activations_each
    places = [HARDMAX, *[SIGMOID] * (each - 1), SIGMOID, *[HARDMAX] * (each - 1)]
    desc = network(operator, (3, 2, 3, 5), "BIDIRECTIONAL", optional=ALL, activation_descs=places)
    check(desc, arrays_of(desc, 4))


@each_operator
def test_hardmax_takes_the_first_nan_or_maximum(operator: type[Any]) -> None:
    """Of equal units the first is 1; a NaN is the extreme."""
    ones = (HARDMAX,) if operator is operators.Rnn else (HARDMAX, RELU, RELU)[: operator.activations_each]
    desc = network(operator, (1, 2, 1, 4), activation_descs=ones)
    arrays = [np.zeros(tensor.sizes, np.float32) if tensor else None for _, tensor in desc.inputs()]
    x, weights = arrays[:2]
    assert x is not None and weights is not None
    x[0, 0, :, 0] = 1
    x[0, 0, 1, 0] = np.nan
    outcome = run_operator(desc, arrays)
    if operator is operators.Rnn:
        assert outcome[0].ravel().tolist() == [1, 0, 0, 0] * 2


@each_operator
def test_hostile_lengths(operator: type[Any]) -> None:
    """Lengths from 0 to the largest number read nothing outside of any tensor; between guard pages."""
    desc = network(operator, (3, 5, 2, 3), "BIDIRECTIONAL", optional=ALL)
    check(desc, with_lengths(desc, arrays_of(desc, 7), [0, 1, 3, 4, 2**32 - 1]))


@each_operator
def test_without_steps_the_initial_state_remains(operator: type[Any]) -> None:
    """Also where the input is NaN behind the end of a sequence."""
    desc = network(operator, (3, 2, 1, 2), "BACKWARD", optional=ALL)
    arrays = arrays_of(desc, 1)
    named = dict(zip([name for name, _ in desc.inputs()], arrays, strict=True))
    assert named["InputTensor"] is not None and named["SequenceLengthsTensor"] is not None
    named["InputTensor"][:, :, 0] = np.nan
    named["SequenceLengthsTensor"][...] = [0, 2]
    named["InputTensor"][:, 2] = np.nan
    sequence, *last = run_operator(desc, arrays)
    assert np.isfinite(sequence).all()
    assert not sequence[:, :, 0].any() and not sequence[2].any()
    for outcome, name in zip(last, ("HiddenInitTensor", "CellMemInitTensor"), strict=False):
        initial = named[name]
        assert initial is not None
        np.testing.assert_array_equal(outcome[:, :, 0], initial[:, :, 0])


def test_simple_network_by_hand() -> None:
    desc = network(operators.Rnn, (3, 2, 1, 2), "BACKWARD", optional=ALL, activation_descs=[RELU])
    ones = np.ones((1, 1, 2, 2), np.float32)
    lengths = np.array([[[[0, 2**32 - 1]]]], np.uint32)
    bias = np.zeros((1, 1, 1, 4), np.float32)
    arrays = [np.ones((1, 3, 2, 1), np.float32), np.ones((1, 1, 2, 1), np.float32), ones, bias, ones, lengths]
    sequence, single = run_operator(desc, arrays)
    assert single.tolist() == [[[[1, 1], [15, 15]]]]
    assert sequence[:, 0].tolist() == [[[0, 0], [15, 15]], [[0, 0], [7, 7]], [[0, 0], [3, 3]]]


@pytest.mark.parametrize("threshold", [float("nan"), -1.0])
def test_strange_clip_thresholds(threshold: float) -> None:
    """NaN is no limit; of a negative threshold the lower limit, which is positive then, prevails."""
    desc = network(operators.Lstm, (2, 1, 2, 3), clip_threshold=threshold, use_clip_threshold=True)
    arrays = arrays_of(desc, 3)
    outcome = run_operator(desc, arrays)
    if threshold == -1.0:
        step = 1 / (1 + np.exp(-1.0))
        cell = (step + 1) * step * np.tanh(1.0)
        np.testing.assert_allclose(outcome[2].ravel(), [cell] * 3, rtol=1e-6)
    else:
        unlimited = run_operator(network(operators.Lstm, (2, 1, 2, 3)), arrays)
        np.testing.assert_array_equal(outcome[0], unlimited[0])


@each_operator
def test_definitions_do_not_grow_with_sequences(operator: type[Any]) -> None:
    """As many statements of as many characters for any number of steps, units and items of a batch."""

    def size(length: int, batch: int, hidden: int) -> tuple[int, int]:
        desc = network(operator, (length, batch, 64, hidden), "BIDIRECTIONAL", "float16", optional=ALL)
        assert not dml.validate(desc)
        definition = desc.define()
        stores = sum(len(stores_of(statement)) for statement in definition.statements)
        # The digits of sizes and strides are what may differ.
        return stores, len("".join(c for c in format_definition(definition) if not c.isdigit()))

    assert size(2, 2, 128) == size(64, 2, 128) == size(4096, 64, 512)


def test_memory_does_not_grow_with_projections() -> None:
    """Where the input is narrow beside the units its projections would be much larger than all that is bound."""
    desc = network(operators.Lstm, (4096, 4, 1, 512), output_sequence_tensor=None)
    temporaries = refined_definition(desc, TARGET).temporaries
    elements = sum(int(np.prod(tensor.sizes)) for tensor in temporaries)
    assert elements < 2 * int(np.prod(desc.recurrence_tensor.sizes))


LINEAR = {"linear_before_reset": True}
KINDS = [(operators.Rnn, {}, 1), (operators.Gru, LINEAR, 1), (operators.Gru, {}, 2), (operators.Lstm, {}, 1)]
"""Operators and how often a step needs the states of all units, so that threads must wait for each other."""


@pytest.mark.parametrize(("operator", "fields", "waits"), KINDS)
@pytest.mark.parametrize("direction", ["FORWARD", "BIDIRECTIONAL"])
def test_threads_wait_once_a_step(operator: type[Any], fields: dict[str, Any], waits: int, direction: str) -> None:
    """Not for the other direction; and outside of the steps behind copies, of which projections read one of a bias, and
    behind the steps. All of these are shared out. No state lies where something else has been that is still read."""
    desc = network(operator, (9, 32, 3, 64), direction, optional=ALL, **fields)
    code = program_code(refined_definition(desc, TARGET), TARGET, Support("", "", {}))
    (entry,) = (text[text.index(f"define void @{ENTRY}") :] for text in code.modules if f"define void @{ENTRY}" in text)
    assert entry.count("call i64 @share_wait(ptr %barrier") == 2
    assert entry.count("call void @barrier_wait(ptr %barrier") == waits


@each_operator
def test_items_of_a_batch_share_weights(operator: type[Any]) -> None:
    """In all sums of a step: those of several items are computed for each vector of weights that is loaded."""
    desc = network(operator, (3, 8, 4, 64), optional=ALL)
    kernels = program_code(refined_definition(desc, TARGET), TARGET, Support("", "", {})).kernels
    steps = [kernel for kernel in kernels if "packed_RecurrenceTensor" in {tensor.name for tensor in kernel.reads}]
    assert steps and all(getattr(kernel, "tile_size", 1) >= 4 for kernel in steps)


@pytest.mark.parametrize(("batch", "units", "waits"), [(8, 96, 3), (1, 96, 0), (8, 16, 0)])
def test_sums_wait_in_memory_for_those_that_need_all_registers(batch: int, units: int, waits: int) -> None:
    """Those of three gates of all items, until the fourth one's are done; fewer stay in registers."""
    desc = network(operators.Lstm, (3, batch, 4, units), "BACKWARD")
    code = program_code(refined_definition(desc, TARGET), TARGET, Support("", "", {}))
    (step,) = (text for text in code.modules for text in text.split("define ") if text.count("fdiv") >= 4)
    stored = re.findall(r"store volatile <\d+ x float> %\w+, ptr %(waiting\w*)", step)
    loaded = re.findall(r"load volatile <\d+ x float>, ptr %(waiting\w*)", step)
    assert len(stored) == len(set(stored)) == waits * batch and sorted(loaded) == sorted(stored)
    check(desc, arrays_of(desc, 0))


@pytest.mark.parametrize("operator", [operators.Gru, operators.Lstm])
@pytest.mark.parametrize(("units", "is_asked_for"), [(160, True), (96, False)])
def test_weights_that_leave_the_nearest_cache_are_asked_for(
    operator: type[Any], units: int, is_asked_for: bool
) -> None:
    """Some steps ahead, where those of a block of units are too many to stay there until the next items come."""
    desc = network(operator, (2, 8, 4, units))
    kernels = generate(refined_definition(desc, TARGET), TARGET, in_place=False).kernels
    asked = [line for kernel in kernels for line in format_nest(kernel_nest(kernel, TARGET, ())).splitlines()]
    expected = f"prefetch packed_RecurrenceTensor {32 * 4 * TUNING.steps_ahead} bytes ahead"
    assert (expected in asked) == is_asked_for
    check(desc, arrays_of(desc, 0))


@pytest.mark.parametrize(
    ("level", "batch", "units", "registers"),
    [("avx512", 8, 256, 2), ("avx512", 1, 256, 4), ("avx512", 1, 512, 2), ("avx2", 8, 256, 2), ("avx2", 1, 512, 4)],
)
def test_weights_of_as_many_units_as_a_sum_is_for_lie_side_by_side(
    level: str, batch: int, units: int, registers: int
) -> None:
    """Two registers of the machine, twice as many for a single sequence, of few units if registers are wide."""
    target = CpuTarget(machine_of("x86_64-unknown-linux-gnu", level))
    found = refined_definition(network(operators.Lstm, (2, batch, 4, units)), target)
    (weights,) = (t for t in found.temporaries if t.name == "packed_RecurrenceTensor")
    assert weights.sizes[-1] == registers * target.machine.lanes(32)


@pytest.mark.parametrize(("length", "units", "asked"), [(205, 160, True), (342, 96, False), (100, 160, False)])
def test_projections_are_asked_for_before_long_sums(length: int, units: int, asked: bool) -> None:
    """Line by line for each gate; not before short sums, nor where all of them stay near."""
    desc = network(operators.Lstm, (length, 8, 128, units))
    kernels = generate(refined_definition(desc, TARGET), TARGET, in_place=False).kernels
    lines = [line for kernel in kernels for line in format_nest(kernel_nest(kernel, TARGET, ())).splitlines()]
    found = [line for line in lines if line.strip().startswith("prefetch projections@") and "store" not in line]
    assert len(found) == (4 * 32 // 16 if asked else 0)
    short = network(operators.Lstm, (2, 8, 128, units))
    check(short, arrays_of(short, 0), replace(TUNING, prefetched_bytes=0))


def test_projections_of_a_batch_have_tiles_of_several_registers() -> None:
    """Of its items and three registers of gates; beside one, of items and steps, every sum would load a scalar."""
    desc = network(operators.Lstm, (100, 8, 128, 256), "BIDIRECTIONAL")
    for target, expected in ((TARGET, (3, 8, 1)), (TARGET.tuned(broadcast_loads=1.0), (1, 8, 3))):
        kernels = generate(refined_definition(desc, target), target, in_place=False).kernels
        (kernel,) = (kernel for kernel in kernels if isinstance(kernel, ContractionKernel))
        assert (kernel.vectors, kernel.tile_size, kernel.row_count) == expected


@pytest.mark.skipif(host_machine().architecture != "x86_64", reason="reads x86's assembly")
def test_steps_use_little_stack() -> None:
    """Sums of four gates, twice where steps compute the input's part, wait for one another."""
    desc = network(operators.Lstm, (4, 16, 3, 512), "BACKWARD", optional=ALL)
    target = host_target()
    for module in generate(refined_definition(desc, target), target, in_place=False).modules:
        assert max(frames(assembly(module, target.machine)), default=0) <= STACK_BOUND


# ---- what else there is

ONNX_DIRECTIONS = {"FORWARD": "forward", "BACKWARD": "reverse", "BIDIRECTIONAL": "bidirectional"}
ONNX_INPUTS = {"InputTensor": "X", "WeightTensor": "W", "RecurrenceTensor": "R", "BiasTensor": "B"}
ONNX_INPUTS |= {"SequenceLengthsTensor": "sequence_lens", "HiddenInitTensor": "initial_h"}
ONNX_INPUTS |= {"CellMemInitTensor": "initial_c", "PeepholeTensor": "P"}


def onnx_model(desc: Any) -> tuple[bytes, list[str]]:
    """The node of ONNX with the same meaning, and its inputs."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    given = {ONNX_INPUTS[name] for name, tensor in desc.inputs() if tensor is not None}
    order = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
    order = order if desc.type.name == "LSTM" else order[:6]
    attributes: dict[str, Any] = {"hidden_size": desc.recurrence_tensor.sizes[3]}
    attributes["direction"] = ONNX_DIRECTIONS[desc.direction.name]
    if desc.type.name == "GRU":
        attributes["linear_before_reset"] = int(desc.linear_before_reset)
    if desc.type.name == "LSTM":
        attributes["input_forget"] = int(desc.couple_input_forget)
        attributes |= {"clip": desc.clip_threshold} if desc.use_clip_threshold else {}
    results = ["Y", "Y_h", "Y_c"][: len(desc.outputs())]
    node = helper.make_node(desc.type.name, [x if x in given else "" for x in order], results, **attributes)
    kinds = {x: onnx.TensorProto.INT32 if x == "sequence_lens" else onnx.TensorProto.FLOAT for x in order}
    described = [helper.make_tensor_value_info(x, kinds[x], None) for x in order if x in given]
    described_results = [helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, None) for x in results]
    graph = helper.make_graph([node], "network", described, described_results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString(), [x for x in order if x in given]


def onnx_feeds(desc: Any, arrays: Sequence[Array | None]) -> dict[str, Array]:
    """What ONNX is given: no leading dimensions of size 1, lengths as INT32."""
    feeds = {}
    for (name, _), array in zip(desc.inputs(), arrays, strict=True):
        if array is not None:
            leading = 3 if name == "SequenceLengthsTensor" else 2 if name in ("BiasTensor", "PeepholeTensor") else 1
            plain = array.reshape(array.shape[leading:])
            feeds[ONNX_INPUTS[name]] = plain.astype(np.int32) if plain.dtype == np.uint32 else plain
    return feeds


def with_lengths(desc: Any, arrays: list[Array | None], lengths: Sequence[int]) -> list[Array | None]:
    names = [name for name, _ in desc.inputs()]
    arrays[names.index("SequenceLengthsTensor")] = np.array(lengths, np.uint32).reshape(1, 1, 1, -1)
    return arrays


RUNTIME_CASES = [
    (operators.Rnn, {}),
    (operators.Gru, {"linear_before_reset": False}),
    (operators.Gru, {"linear_before_reset": True}),
    (operators.Lstm, {}),
    (operators.Lstm, {"use_clip_threshold": True, "clip_threshold": 0.25}),
    (operators.Lstm, {"couple_input_forget": True}),
]


@pytest.mark.parametrize(("operator", "fields"), RUNTIME_CASES, ids=lambda x: getattr(x, "__name__", None) or str(x))
def test_as_onnx_runtime(operator: type[Any], fields: dict[str, Any]) -> None:
    """All optional tensors; the output gate's peephole sees the new cell."""
    onnxruntime = pytest.importorskip("onnxruntime")
    desc = network(operator, (4, 3, 2, 5), "BIDIRECTIONAL", optional=ALL, **fields)
    arrays = with_lengths(desc, arrays_of(desc, 5), [4, 1, 3])
    model, _ = onnx_model(desc)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for actual, expected in zip(run_operator(desc, arrays), session.run(None, onnx_feeds(desc, arrays)), strict=True):
        np.testing.assert_allclose(actual.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "fields"), RUNTIME_CASES[:4], ids=lambda x: getattr(x, "__name__", None) or str(x)
)
def test_as_the_reference_evaluator(operator: type[Any], fields: dict[str, Any]) -> None:
    """Of what ONNX's evaluator has: forward, the whole sequence, all but the clipping."""
    pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    optional = [name for name in ALL if name != "sequence_lengths_tensor"]
    desc = network(operator, (4, 3, 2, 5), optional=optional, **fields)
    arrays = arrays_of(desc, 6)
    model, _ = onnx_model(desc)
    expected = ReferenceEvaluator(model).run(None, onnx_feeds(desc, arrays))
    for actual, reference in zip(run_operator(desc, arrays), expected, strict=False):
        np.testing.assert_allclose(actual.reshape(reference.shape), reference, rtol=1e-5, atol=1e-6)


TORCH_GATES = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}
"""Where in DirectML's order PyTorch's gates are: r, z, n and i, f, g, o."""


@each_operator
def test_as_torch(operator: type[Any]) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    fields: dict[str, Any] = {"linear_before_reset": True} if operator is operators.Gru else {}
    desc = network(operator, (4, 2, 3, 5), "BIDIRECTIONAL", optional=["bias_tensor"], **fields)
    name = desc.type.name
    other = getattr(torch.nn, name)(3, 5, bidirectional=True)
    x = torch.randn(4, 2, 3)
    with torch.no_grad():
        sequence, last = other(x)

    def stacked(part: str) -> Array:
        rows = []
        for suffix in ("_l0", "_l0_reverse"):
            gates = np.split(getattr(other, part + suffix).detach().numpy(), operator.gates)
            rows.append(np.concatenate([gates[TORCH_GATES[name].index(i)] for i in range(operator.gates)]))
        return np.stack(rows)

    bias = np.concatenate([stacked("bias_ih"), stacked("bias_hh")], axis=1)[None, None]
    arrays: list[Array | None] = [x.numpy()[None], stacked("weight_ih")[None], stacked("weight_hh")[None], bias]
    outcome = run_operator(desc, arrays + [None] * (len(desc.inputs()) - 4))
    expected = sequence.numpy().reshape(4, 2, 2, 5).swapaxes(1, 2)
    np.testing.assert_allclose(outcome[0], expected, rtol=1e-5, atol=1e-6)
    for actual, state in zip(outcome[1:], last if isinstance(last, tuple) else (last,), strict=True):
        np.testing.assert_allclose(actual[0], state.numpy(), rtol=1e-5, atol=1e-6)


@each_operator
def test_in_graphs(operator: type[Any]) -> None:
    """Between other operators, which are fused with what they can be: bit for bit as one after the other."""
    name = operator.__name__.lower()
    function = getattr(dml, name)
    desc = network(operator, (3, 2, 4, 6), "BIDIRECTIONAL")
    x, *weights = [a for a in arrays_of(desc, 9) if a is not None]
    graph = dml.Graph()
    tensor = graph.input("float32", x.shape)
    found = function(dml.activation_relu(tensor), *weights, direction="BIDIRECTIONAL")
    program = graph.compile({"y": dml.activation_sigmoid(found.sequence) + 1, "h": found.single * 2})
    expected = function(dml.activation_relu(x), *weights, direction="BIDIRECTIONAL")
    outcome = program(x)
    np.testing.assert_array_equal(outcome["y"], dml.activation_sigmoid(expected.sequence) + 1)
    np.testing.assert_array_equal(outcome["h"], expected.single * 2)

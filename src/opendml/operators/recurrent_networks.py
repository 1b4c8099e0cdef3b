"""What recurrent operators compute: the input's part of all steps as one product, then step after step.

Every gate of every unit is ``activation(x * W + (W_b + R_b) + H * R)``: the two sums of products are each in order from
0, and everything is added in this order, in float32. States stay in float32 from step to step.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from opendml.description.enums import OperatorType
from opendml.expression.element_types import I64
from opendml.expression.folds import extreme_with_position, lowest, sum_of_products
from opendml.expression.ir import (
    Axis,
    Expression,
    Tensor,
    binary,
    cast,
    clamp_index,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.statements import Compute, Definition, Repeat, Statement, Store
from opendml.operators.activation_functions import activate, clip
from opendml.operators.definition import computation_type, optional_tensor, widen

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.operators.recurrent import Gru, Lstm, Recurrent

Value = Callable[[Expression, Expression], Expression]
"""A value of every unit: what it is for an item of the batch and the number of a unit."""


class Network:
    """The tensors of a network, and the statements that fill them; itself that of RNN.

    ``projections`` {S, D, N, gates, H} is the input's part of the gates with the biases, at the input's own time.
    States, and what steps keep of all units, are statements of their own: every unit needs those of all others.
    """

    gates = 1

    def __init__(self, desc: Recurrent) -> None:
        self.desc = desc
        self.inputs = {name: optional_tensor(name, tensor, "input") for name, tensor in desc.inputs()}
        self.outputs = {name: optional_tensor(name, tensor, "output") for name, tensor in desc.outputs()}
        self.temporaries: list[Tensor] = []
        self.lengths = self.inputs["SequenceLengthsTensor"]
        self.input = self.given("InputTensor")
        _, self.length, self.batch, self.width = self.input.sizes
        _, self.directions, _, self.hidden = self.given("RecurrenceTensor").sizes
        self.type = computation_type(self.input.type)
        sizes = [self.length, self.directions, self.batch, self.gates, self.hidden]
        self.projections = self.temporary("projections", sizes)

    def given(self, name: str) -> Tensor:
        """An input that is not optional."""
        found = self.inputs[name]
        assert found is not None
        return found

    def temporary(self, name: str, sizes: Sequence[int]) -> Tensor:
        """Memory for intermediate values."""
        tensor = temporary(name, self.type, sizes)
        self.temporaries.append(tensor)
        return tensor

    def units(self) -> tuple[tuple[Axis, ...], Expression, Expression]:
        """Axes over the batch and the units, the item and the unit."""
        axes = grid([self.batch, self.hidden], "bu")
        item, unit = indices(axes)
        return axes, item, unit

    def definition(self) -> Definition:
        """The projections, the steps of all directions side by side, and the outputs."""
        walks = [self.walk(number) for number in range(self.directions)]
        steps = Axis("s", self.length)
        for walk in walks:
            walk.step(index(steps))
        # Statements of one direction need not wait for those of the other one.
        side_by_side = itertools.zip_longest(*(walk.statements for walk in walks))
        repeated = Repeat(steps, tuple(s for together in side_by_side for s in together if s is not None))
        statements = [self._projected(), *(walk.begin() for walk in walks), repeated]
        inputs, outputs = tuple(self.inputs.values()), tuple(self.outputs.values())
        return Definition(inputs, outputs, (*statements, *self._results(walks)), tuple(self.temporaries))

    def walk(self, number: int) -> Walk:
        """One of the directions."""
        return Walk(self, number)

    def both_biases(self, direction: Expression, gate: Expression, unit: Expression) -> Expression | None:
        """What is added to the input's part: the bias of the weights and that of the recurrence."""
        own, recurrent = (self.bias_of(direction, gate + n * self.gates, unit) for n in (0, 1))
        return None if own is None or recurrent is None else own + recurrent

    def bias_of(self, direction: Expression, number: Expression, unit: Expression) -> Expression | None:
        """An element of one of the biases of a direction, if there are any."""
        return self.of_vector("BiasTensor", direction, number, unit)

    def of_vector(self, name: str, direction: Expression, number: Expression, unit: Expression) -> Expression | None:
        """An element of one of the vectors of units, one behind the other, that a direction has, if they are given."""
        vectors = self.inputs.get(name)
        return None if vectors is None else widen(load(vectors, (0, 0, direction, number * self.hidden + unit)))

    def of_matrix(
        self, name: str, direction: Expression, gate: Expression, unit: Expression, inner: Expression
    ) -> Expression:
        """An element of one of the matrices of gates, one behind the other, that a direction has."""
        return widen(load(self.given(name), (0, direction, gate * self.hidden + unit, inner)))

    def projection(
        self, time: Expression, direction: Expression, item: Expression, gate: Expression, unit: Expression
    ) -> Expression:
        """The product of input and weights, and the biases."""
        (inner,) = grid([self.width], "i")
        left = widen(load(self.input, (0, time, item, index(inner))))
        right = self.of_matrix("WeightTensor", direction, gate, unit, index(inner))
        product = sum_of_products((inner,), left, right)
        bias = self.both_biases(direction, gate, unit)
        return product if bias is None else product + bias

    def length_of(self, item: Expression) -> Expression:
        """The number of steps of an item of the batch, never more than there are."""
        if self.lengths is None:
            return constant(self.length, I64)
        return binary("min", cast(load(self.lengths, (0, 0, 0, item)), I64), self.length)

    def _projected(self) -> Statement:
        axes = grid(self.projections.sizes, "tdbgu")
        return Compute(axes, (Store(self.projections, indices(axes), self.projection(*indices(axes))),))

    def _results(self, walks: Sequence[Walk]) -> Iterator[Statement]:
        """All states at their inputs' times, 0 behind the end of a shorter sequence, and the last ones."""
        sequence = self.outputs["OutputSequenceTensor"]
        if sequence is not None:
            axes = grid([self.length, self.batch, self.hidden], "tbu")
            time, item, unit = indices(axes)
            values = [walk.hidden.at(walk.number_of(time, item) + 1, item, unit) for walk in walks]
            if self.lengths is not None:
                values = [select(time < self.length_of(item), value, 0) for value in values]
            yield _stored(axes, sequence, [(time, constant(n, I64), item, unit) for n in range(len(walks))], values)
        for name, state in walks[0].states.items():
            output = self.outputs[state.output]
            if output is not None:
                axes = grid([self.batch, self.hidden], "bu")
                item, unit = indices(axes)
                values = [walk.states[name].final(item, unit) for walk in walks]
                places = [(constant(0, I64), constant(n, I64), item, unit) for n in range(len(walks))]
                yield _stored(axes, output, places, values)


def _stored(
    axes: Sequence[Axis], output: Tensor, places: Sequence[tuple[Expression, ...]], values: Sequence[Expression]
) -> Statement:
    """Values of all directions in an output, rounded once."""
    stores = (Store(output, place, cast(value, output.type)) for place, value in zip(places, values, strict=True))
    return Compute(tuple(axes), tuple(stores))


class State:
    """What one direction keeps from step to step.

    ``values`` {S + 1, N, H} begins with the initial state and has one entry a step, whichever way the steps run, or
    {2, N, H} where two take turns. ``last`` {2, N, H} does not change behind the end of a shorter sequence, where
    ``values`` go on with what nobody reads.
    """

    def __init__(self, walk: Walk, name: str, initial: str, output: str) -> None:
        network = walk.network
        self.network, self.number, self.output = network, constant(walk.number, I64), output
        self.initial = network.inputs[initial]
        sizes = [network.batch, network.hidden]
        self._has_all = name == "hidden" and network.outputs["OutputSequenceTensor"] is not None
        full_name = f"{walk.name}_{name}"
        self.values = network.temporary(full_name, [network.length + 1 if self._has_all else 2, *sizes])
        has_last = network.lengths is not None and network.outputs[output] is not None
        self.last = network.temporary(f"last_{full_name}", [2, *sizes]) if has_last else None

    def at(self, step: Expression, item: Expression, unit: Expression) -> Expression:
        """The state after so many steps."""
        return load(self.values, (step if self._has_all else step % 2, item, unit))

    def final(self, item: Expression, unit: Expression) -> Expression:
        """The state after an item's last step, the initial one where there is none."""
        length = constant(self.network.length, I64)
        return self.at(length, item, unit) if self.last is None else load(self.last, (length % 2, item, unit))

    def begin(self, item: Expression, unit: Expression) -> tuple[Store, ...]:
        """The state before the first step: 0 where none is given."""
        value: Expression = constant(0, self.network.type)
        if self.initial is not None:
            value = widen(load(self.initial, (0, self.number, item, unit)))
        tensors = [self.values] if self.last is None else [self.values, self.last]
        return tuple(Store(tensor, (constant(0, I64), item, unit), value) for tensor in tensors)

    def follow(
        self, step: Expression, item: Expression, unit: Expression, value: Expression, is_within: Expression
    ) -> Iterator[Store]:
        """The state after a step; ``is_within``: whether the step is one of the item's own."""
        following = step + 1
        yield Store(self.values, (following if self._has_all else following % 2, item, unit), value)
        if self.last is not None:
            value = select(is_within, value, load(self.last, (step % 2, item, unit)))
            yield Store(self.last, (following % 2, item, unit), value)


class Walk:
    """One direction of a network: its states, and the ``statements`` of a step; itself that of RNN."""

    def __init__(self, network: Network, number: int) -> None:
        self.network = network
        self.number = number
        self.is_backward = network.desc.is_backward(number)
        self.name = "backward" if self.is_backward else "forward"
        each = len(network.desc.activation_descs) // network.directions
        self.activations = network.desc.activation_descs[number * each : (number + 1) * each]
        self.hidden = State(self, "hidden", "HiddenInitTensor", "OutputSingleTensor")
        self.states = {"hidden": self.hidden}
        self.statements: list[Statement] = []

    def step(self, step: Expression) -> None:
        """Adds the statements of a step."""
        (activation,) = self.activations
        self.finish(step, {"hidden": self.activated(activation, self.gate(0, step, self.before(step)))})

    def begin(self) -> Statement:
        """All states before the first step."""
        axes, item, unit = self.network.units()
        return Compute(axes, tuple(store for s in self.states.values() for store in s.begin(item, unit)))

    def finish(self, step: Expression, values: dict[str, Value]) -> None:
        """Adds the statement of all states after a step."""
        axes, item, unit = self.network.units()
        is_within = step < self.network.length_of(item)
        found = [(self.states[name], value(item, unit)) for name, value in values.items()]
        stores = (store for state, value in found for store in state.follow(step, item, unit, value, is_within))
        self.statements.append(Compute(axes, tuple(stores)))

    def before(self, step: Expression) -> Value:
        """The hidden state before a step."""
        return lambda item, unit: self.hidden.at(step, item, unit)

    def number_of(self, time: Expression, item: Expression) -> Expression:
        """The step that reads the input of a time; any one for times behind the end of a shorter sequence."""
        if not self.is_backward:
            return time
        step = self.network.length_of(item) - 1 - time
        return step if self.network.lengths is None else clamp_index(step, self.network.length)

    def gate(self, gate: int, step: Expression, left: Value) -> Value:
        """The input's part of a gate, with the biases, and the product of ``left`` and the recurrence."""

        def total(item: Expression, unit: Expression) -> Expression:
            return self.projected(gate, step, item, unit) + self.recurrent(gate, left, item, unit)

        return functools.cache(total)

    def projected(self, gate: int, step: Expression, item: Expression, unit: Expression) -> Expression:
        """The input's part of a gate, with the biases."""
        network = self.network
        # The time that a step reads is found like the step that reads a time.
        time = self.number_of(step, item)
        place = (time, constant(self.number, I64), item, constant(gate, I64), unit)
        return load(network.projections, place)

    def recurrent(self, gate: int, left: Value, item: Expression, unit: Expression) -> Expression:
        """The product of ``left`` and the recurrence."""
        (inner,) = grid([self.network.hidden], "j")
        direction, number = constant(self.number, I64), constant(gate, I64)
        right = self.network.of_matrix("RecurrenceTensor", direction, number, unit, index(inner))
        return sum_of_products((inner,), left(item, index(inner)), right)

    def activated(self, activation: Operator, value: Value) -> Value:
        """The activation of a value. That of HARDMAX is 1 at the first NaN or else the first maximum of the units."""
        if activation.type != OperatorType.ACTIVATION_HARDMAX:
            return functools.cache(lambda item, unit: activate(activation, value(item, unit)))
        kept = self.kept("activated", value)

        def hardmax(item: Expression, unit: Expression) -> Expression:
            (along,) = grid([self.network.hidden], "m")
            initial = (lowest(self.network.type), constant(0, I64))
            _, first = extreme_with_position("gt", (along,), kept(item, index(along)), index(along), initial)
            return select(first.equals(unit), 1, 0, self.network.type)

        return functools.cache(hardmax)

    def kept(self, name: str, value: Value) -> Value:
        """A value computed by a statement of its own, for those that need it of all units."""
        axes, item, unit = self.network.units()
        tensor = self.network.temporary(f"{self.name}_{name}", [self.network.batch, self.network.hidden])
        self.statements.append(Compute(axes, (Store(tensor, (item, unit), value(item, unit)),)))
        return lambda item, unit: load(tensor, (item, unit))


class GatedNetwork(Network):
    """That of GRU: gates z (update), r (reset) and h (candidate)."""

    gates = 3

    def __init__(self, desc: Gru) -> None:
        super().__init__(desc)
        self.is_linear = desc.linear_before_reset

    def walk(self, number: int) -> Walk:
        """One of the directions."""
        return _GatedWalk(self, number, self.is_linear)

    def both_biases(self, direction: Expression, gate: Expression, unit: Expression) -> Expression | None:
        """With LinearBeforeReset the candidate's recurrent bias belongs to the product that is reset."""
        total, own = super().both_biases(direction, gate, unit), self.bias_of(direction, gate, unit)
        if total is None or own is None or not self.is_linear:
            return total
        return select(gate < 2, total, own)


class _GatedWalk(Walk):
    def __init__(self, network: GatedNetwork, number: int, is_linear: bool) -> None:
        super().__init__(network, number)
        self.is_linear = is_linear

    def step(self, step: Expression) -> None:
        """``H = (1 - z) . h + z . H``."""
        f, g = self.activations
        before = self.before(step)
        update, reset = (self.activated(f, self.gate(gate, step, before)) for gate in (0, 1))
        candidate = self.activated(g, self._candidate(step, before, reset))

        def mixed(item: Expression, unit: Expression) -> Expression:
            z = update(item, unit)
            return (1 - z) * candidate(item, unit) + z * before(item, unit)

        self.finish(step, {"hidden": mixed})

    def _candidate(self, step: Expression, before: Value, reset: Value) -> Value:
        """The candidate before its activation: the state is reset before its product or after it."""
        if not self.is_linear:
            left = self.kept("reset", lambda item, unit: reset(item, unit) * before(item, unit))
            return self.gate(2, step, left)
        return self._reset_product(step, before, reset)

    def _reset_product(self, step: Expression, before: Value, reset: Value) -> Value:
        network = self.network
        direction = constant(self.number, I64)

        def total(item: Expression, unit: Expression) -> Expression:
            product = self.recurrent(2, before, item, unit)
            bias = network.bias_of(direction, constant(5, I64), unit)
            product = product if bias is None else product + bias
            return self.projected(2, step, item, unit) + reset(item, unit) * product

        return functools.cache(total)


class MemoryNetwork(Network):
    """That of LSTM: gates i (input), o (output), f (forget) and c (candidate)."""

    gates = 4

    def __init__(self, desc: Lstm) -> None:
        super().__init__(desc)
        self.lstm = desc

    def walk(self, number: int) -> Walk:
        """One of the directions."""
        return _MemoryWalk(self, number, self.lstm)


class _MemoryWalk(Walk):
    def __init__(self, network: MemoryNetwork, number: int, desc: Lstm) -> None:
        super().__init__(network, number)
        self.desc = desc
        self.cell = State(self, "cell", "CellMemInitTensor", "OutputCellSingleTensor")
        self.states["cell"] = self.cell

    def step(self, step: Expression) -> None:
        """``C = f . C + i . c``, then ``H = o . h(C)``."""
        f, g, h = self.activations
        before = self.before(step)

        def cell_before(item: Expression, unit: Expression) -> Expression:
            return self.cell.at(step, item, unit)

        def gate(number: int, activation: Operator, seen: Value | None = None) -> Value:
            return self.activated(
                activation, self._clipped(self._peeping(number, self.gate(number, step, before), seen))
            )

        let_in, candidate = gate(0, f, cell_before), gate(3, g)
        forget = self._complement(let_in) if self.desc.couple_input_forget else gate(2, f, cell_before)

        @functools.cache
        def cell(item: Expression, unit: Expression) -> Expression:
            kept = forget(item, unit) * cell_before(item, unit)
            return kept + let_in(item, unit) * candidate(item, unit)

        let_out, shown = gate(1, f, cell), self.activated(h, cell)
        hidden = functools.cache(lambda item, unit: let_out(item, unit) * shown(item, unit))
        self.finish(step, {"hidden": hidden, "cell": cell})

    @staticmethod
    def _complement(value: Value) -> Value:
        return lambda item, unit: 1 - value(item, unit)

    def _clipped(self, value: Value) -> Value:
        """Between minus and plus the threshold, if there is one."""
        if not self.desc.use_clip_threshold:
            return value
        limit = self.desc.clip_threshold
        return lambda item, unit: clip(value(item, unit), -limit, limit)

    def _peeping(self, gate: int, value: Value, seen: Value | None) -> Value:
        """The gate with what it sees of the cell, added last. Peepholes are in the order of gates i, o, f."""
        if seen is None or self.network.inputs["PeepholeTensor"] is None:
            return value
        place = constant(self.number, I64), constant(gate, I64)

        def total(item: Expression, unit: Expression) -> Expression:
            weight = self.network.of_vector("PeepholeTensor", *place, unit)
            assert weight is not None
            return value(item, unit) + weight * seen(item, unit)

        return total

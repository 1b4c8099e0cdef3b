"""What has little to do has short code, which does the same; and what is known already is not written again."""

from __future__ import annotations

import re

import pytest
from contraction_kernels import TARGETS, convolution, gemm
from nest_running import HOSTS, MANY_THREADS, check_nests, contents_of

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import I64
from opendml.expression.ir import Axis
from opendml.expression.statements import Compute, Definition, Each, Repeat
from opendml.llvm.values import Value
from opendml.loops.nest import Points, nodes_of
from opendml.targets.cpu.code.memory import Scopes
from opendml.targets.cpu.code.program_code import ProgramCode
from opendml.targets.cpu.little_work import microseconds_of, short_where_little, steps_of
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.tuning import TUNING

pytestmark = pytest.mark.usefixtures("no_cache")


def tensor(*sizes: int) -> TensorDesc:
    return TensorDesc("float32", sizes)


def softmax(rows: int, columns: int) -> Definition:
    both = tensor(rows, columns)
    return operators.ActivationSoftmax1(input_tensor=both, output_tensor=both, axes=[1]).define()


def largest(rows: int, columns: int) -> Definition:
    source, result = tensor(rows, columns), tensor(rows, 1)
    return operators.Reduce(function="MAX", input_tensor=source, output_tensor=result, axes=[1]).define()


PRODUCT = gemm(19, 64, 128).define()
CASES: dict[str, Definition] = {
    "product": PRODUCT,
    "windows": convolution(1, 8, 16, 14).define(),
    "one tap": convolution(1, 64, 16, 14, 1).define(),
    "softmax": softmax(19, 10),
}


def code_of(definition: Definition, target: Processor) -> ProgramCode:
    return target.generate(target.refine(definition), in_place=False)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_definition(name: str) -> None:
    for machine in HOSTS:
        target = Processor(machine, MANY_THREADS).tuned(little_work=TUNING.little_work)
        definition = target.refine(CASES[name])
        check_nests(definition, target, contents_of(definition, 1), (1, 0))


def own_size(code: ProgramCode) -> int:
    """Characters of modules, but for that which all programs share."""
    return sum(len(text) for text in code.modules if "define void @barrier_wait(" not in text)


def test_code_of_little_work_is_shorter() -> None:
    """Where there are few registers: else sums have no steps that are written out."""
    for name, part in (("product", 0.65), ("one tap", 0.8)):
        target = Processor(TARGETS[1].machine, TUNING)
        sizes = [own_size(code_of(CASES[name], one)) for one in (target, target.tuned(little_work=0))]
        assert sizes[0] < part * sizes[1], name


def test_steps_that_are_written_out_are_few() -> None:
    target = Processor(TARGETS[1].machine, TUNING)
    for little, most in (
        (target.tuning.little_work, TUNING.few_steps_written_out),
        (0, target.tuning.steps_written_out),
    ):
        code = code_of(CASES["product"], target.tuned(little_work=little))
        points = [node for nest in code.nests for node in nodes_of(nest.body) if isinstance(node, Points)]
        assert max(node.count for node in points if node.carried) == most


def only_statement(definition: Definition) -> Compute:
    (statement,) = definition.statements
    assert isinstance(statement, Compute)
    return statement


def test_steps_count_where_they_are_done() -> None:
    """A sum of products counts an eighth; what is the same for all points of a row, once a row."""
    product = only_statement(PRODUCT)
    assert steps_of(product, (), TUNING) == 19 * 128 + 19 * 128 * 64 // 8
    assert steps_of(product, (Axis("r", 10),), TUNING) == 10 * 19 * 128 + 19 * 128 * 64 // 8 * 10
    rows, row = (statement for statement in softmax(19, 10).statements if isinstance(statement, Compute))
    assert steps_of(rows, (), TUNING) == 19 + 19 * 10 + 19 * 10
    assert steps_of(row, (), TUNING) == 19 * 10


def test_targets_are_others_for_little_work_only() -> None:
    for target in TARGETS:
        product = only_statement(PRODUCT)
        here = target.tuned(little_work=steps_of(product, (), TUNING))
        short = short_where_little(product, (), here)
        assert short.tuning.steps_written_out < here.tuning.steps_written_out
        assert short_where_little(product, (Axis("r", 2),), here) is here
        single = here.tuned(steps_written_out=1)
        assert short_where_little(product, (), single).tuning == single.tuning


def test_programs_say_how_long_one_thread_takes() -> None:
    """Up to a limit; nothing where nobody can help, and the limit where all threads are to take part."""
    target = Processor(TARGETS[1].machine, TUNING.but(longest_alone=1000))
    for rows, found in (
        (256, 256 * 128 * (1 + 64 // TUNING.products_a_step) // TUNING.steps_a_microsecond),
        (1 << 16, 1000),
    ):
        code = target.generate(gemm(rows, 64, 128).define(), in_place=False)
        assert (code.requirements.parallel, code.requirements.alone) == (True, found)
    assert target.generate(gemm(4, 8, 8).define(), in_place=False).requirements == (0, 0, 0, False, 0)
    waked = target.tuned(serial_work=0).generate(gemm(4, 8, 8).define(), in_place=False)
    assert (waked.requirements.parallel, waked.requirements.alone) == (True, 1000)
    code, _ = target.instrumented(gemm(256, 64, 128).define(), in_place=False, thread_count=2)
    assert (code.requirements.parallel, code.requirements.alone) == (True, 1000)


def test_operations_and_what_is_done_one_by_one_take_longer() -> None:
    square, points = TensorDesc("float32", [1, 1, 512, 512]), 512 * 512
    summed = operators.CumulativeSummation(
        input_tensor=square, output_tensor=square, axis=3, axis_direction="INCREASING", has_exclusive_sum=False
    )
    found = []
    for desc in (
        operators.ActivationRelu(input_tensor=square, output_tensor=square),
        operators.ActivationGelu(input_tensor=square, output_tensor=square),
        summed,
    ):
        statements = [one for one in desc.define().statements if not isinstance(one, Repeat | Each)]
        once, again = (microseconds_of([(one, axes) for one in statements], TUNING) for axes in ((), (Axis("r", 4),)))
        assert 4 * once <= again < 4 * (once + 1)
        found.append(once)
    simple, several, one_by_one = found
    assert simple == points // TUNING.steps_a_microsecond
    assert simple < several < one_by_one


def test_what_comes_from_memory_takes_as_long_as_it_takes_to_bring_it() -> None:
    """One row by a matrix of 64 MiB is little work, but for that."""
    alone = microseconds_of([(only_statement(gemm(1, 4096, 4096).define()), ())], TUNING)
    far = (4096 * 4096 + 2 * 4096) * 4 - TUNING.near_program_bytes
    assert alone == far * TUNING.steps_a_microsecond // TUNING.bytes_a_microsecond // TUNING.steps_a_microsecond
    assert alone > 4096 * 4096 // TUNING.products_a_step // TUNING.steps_a_microsecond


def test_lanes_that_are_loaded_one_by_one_count() -> None:
    """The largest of short rows, a row a lane: each step loads one number a lane, and is one of a loop where all of
    them would be too much code."""
    for budget, is_loop in ((1024, False), (512, True)):
        target = Processor(TARGETS[1].machine, MANY_THREADS).tuned(unrolled_operations=budget)
        code = code_of(largest(19, 10), target)
        assert bool(re.search(r"icmp slt i64 %i\d+, 10\n", "".join(code.modules))) == is_loop


def test_places_are_known_behind_scopes_in_line() -> None:
    """As long as their block goes on, and no condition lies between."""
    block = "one"
    scopes = Scopes(lambda: block)
    value = Value("%v1", I64)
    with scopes.inner(), scopes.inner(in_line=True):
        with scopes.inner(in_line=True):
            scopes.put("local", value)
            scopes.put_in_block("place", value)
        assert scopes.find("local") is None
        assert scopes.find("place") is value
        with scopes.inner(in_line=True):
            block = "two"
            scopes.put_in_block("behind a jump", value)
        assert scopes.find("behind a jump") is None
        with scopes.inner():
            scopes.put_in_block("under a condition", value)
        assert scopes.find("under a condition") is None
    assert scopes.find("place") is None


def test_stores_of_a_tile_compute_their_place_once() -> None:
    """Of what is transposed each column was a block that computed where the tile is anew."""
    target = Processor(TARGETS[1].machine, MANY_THREADS.but(least_padding=1))
    text = "".join(code_of(CASES["windows"], target).modules)
    for block in text.split(":\n"):
        lines = re.findall(r"= (mul nsw .*|add nsw .*|getelementptr .*, i64 %.*)", block)
        assert len(lines) == len(set(lines))

"""Definitions as a processor computes them: layouts, copies and instructions are its own, the arithmetic is not.

Definitions say what every element of the outputs is, one statement a result. A rule knows one form of statement by its
accesses, whichever operator wrote it, and makes other statements of it: copies that lie better in memory and the sums
that read them. Expressions in, expressions out, so that the interpreter can run what really runs; bits move, and the
order of arithmetic stays. A definition is refined before it is joined with others, while its accesses are those that
were written down, and what is made of weights alone is computed once like everything that depends on them alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from opendml.description.descriptors import Operator
from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition, Origin, Statement, reads_of, writes_of
from opendml.graph.joining import Refine
from opendml.targets.cpu.refine.channels import channels_in_lanes
from opendml.targets.cpu.refine.compactions import compactions_in_pieces
from opendml.targets.cpu.refine.convolutions import convolution
from opendml.targets.cpu.refine.copies import joined_copies
from opendml.targets.cpu.refine.denormal_factors import sums_between_bounds
from opendml.targets.cpu.refine.denormal_shares import denormal_shares
from opendml.targets.cpu.refine.factors_of_chains import factors_of_chains
from opendml.targets.cpu.refine.few_bits import product_of_few_bits
from opendml.targets.cpu.refine.groups import values_beside_elements
from opendml.targets.cpu.refine.lane_terms import terms_of_all_lanes
from opendml.targets.cpu.refine.margins import margins
from opendml.targets.cpu.refine.matrix_products import matrix_product
from opendml.targets.cpu.refine.orders import keys_side_by_side
from opendml.targets.cpu.refine.outputs import stored_at_once
from opendml.targets.cpu.refine.places import tables_of_places
from opendml.targets.cpu.refine.quotients import blocks_of_strides
from opendml.targets.cpu.refine.recurrences import blocks_of_units
from opendml.targets.cpu.refine.refinement import (
    DefinitionRule,
    Refinement,
    SumRule,
    Surroundings,
    statement_by_statement,
)
from opendml.targets.cpu.refine.row_blocks import blocks_of_rows
from opendml.targets.cpu.refine.runs import runs_in_memory
from opendml.targets.cpu.refine.scattered_parts import scatters_in_parts
from opendml.targets.cpu.refine.scatters import blocks_of_updates
from opendml.targets.cpu.refine.shared_values import values_of_columns
from opendml.targets.cpu.refine.sums import sum_of
from opendml.targets.cpu.refine.sums_of_points import sums_of_points
from opendml.targets.cpu.refine.tables import tables_of_weights
from opendml.targets.cpu.refine.transposed_convolutions import transposed_convolution
from opendml.targets.cpu.refine.words import words
from opendml.targets.cpu.target import CpuTarget

TOGETHER: Final[tuple[DefinitionRule, ...]] = (
    keys_side_by_side,
    compactions_in_pieces,
    stored_at_once,
    runs_in_memory,
    values_beside_elements,
    values_of_columns,
    blocks_of_updates,
    scatters_in_parts,
    factors_of_chains,
    joined_copies,
    blocks_of_strides,
    margins,
    blocks_of_units,
    blocks_of_rows,
    tables_of_places,
    channels_in_lanes,
    terms_of_all_lanes,
    tables_of_weights,
    sums_of_points,
    denormal_shares,
)
"""Rules for several statements together, one after the other, before those of single ones."""

SUMS: Final[tuple[tuple[SumRule, ...], ...]] = (
    (sums_between_bounds,),
    (product_of_few_bits,),
    (convolution, transposed_convolution, matrix_product),
    (words,),
)
"""Rules for statements that compute a sum of products, in stages, each tried on what the one before has left: of one
stage the first that fits is taken."""


def refine(
    definition: Definition,
    target: CpuTarget,
    fixed: Iterable[Tensor] = (),
    bounds: Mapping[Tensor, float] | None = None,
    denormal: Iterable[Tensor] = (),
    origins: Mapping[Tensor, Origin] | None = None,
) -> Definition:
    """The definition for this target. Of its inputs those that are ``fixed`` are known before it ever runs; no element
    of those with ``bounds`` is larger than these, whatever its sign; of float32 none is less than 0; many of those that
    are ``denormal`` may be so small; some come of other things that are known, their ``origins``."""
    surroundings = Surroundings(target, frozenset(fixed), bounds or {}, frozenset(denormal), origins or {})
    for rule in TOGETHER:
        definition = rule(definition, surroundings)
    surroundings = replace(surroundings, known=_known(definition, surroundings.fixed))
    for rules in SUMS:
        definition = statement_by_statement(definition, partial(_refinement, rules, surroundings))
    return definition


def _known(definition: Definition, fixed: frozenset[Tensor]) -> frozenset[Tensor]:
    """What is fixed, and the temporaries that are made of that alone."""
    known, others = set(fixed), set[Tensor]()
    for statement in definition.statements:
        (known if reads_of(statement) <= known - others else others).update(writes_of(statement))
    return frozenset(known - others)


def _refinement(rules: Iterable[SumRule], surroundings: Surroundings, statement: Statement) -> Refinement | None:
    found = sum_of(statement)
    if found is None:
        return None
    return next((made for rule in rules if (made := rule(found, surroundings)) is not None), None)


def refined_definition(desc: Operator, target: CpuTarget) -> Definition:
    """What the program of a single operator computes. All it reads is bound when it runs, so nothing is fixed."""
    return refine(desc.define(), target)


def refining(target: CpuTarget) -> Refine:
    """What joins a graph's definitions for this target is given: ``join(graph, refining(target))``."""
    return lambda definition, *known: refine(definition, target, *known)

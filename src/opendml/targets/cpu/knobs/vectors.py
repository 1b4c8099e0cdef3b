"""Vectors of all kernels but contractions, and what beside them is computed together (``schedule.py``, ``nests/``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class VectorKnobs:
    """How many points are computed together, and which code they get."""

    interleaved_sizes: tuple[int, ...] = (2, 3, 4, 8)
    """Sizes of a last axis that is interleaved in registers, in points."""

    transposed_bytes: int = 64
    """Bytes of a row of the squares that are transposed in registers at most: a line."""

    transposed_points: int = 32
    """Rows and columns of such a square at most. They are as many as registers hold: larger ones, most of which waits
    on the stack, take half as long again, and five times as long where they have four times the registers (Zen 3)."""

    cache_period: int = 4096
    """Bytes from one address to the next whose line has the same places in the nearest cache: all processors that find
    places before they know a physical address have a page."""

    cache_ways: int = 8
    """Such places, at least."""

    shuffled_stride: int = 4
    """Largest step between neighbouring lanes, in elements, that is loaded as whole vectors and picked apart by
    shuffles: of further ones most of what is loaded is of no use."""

    plain_registers: int = 4
    """Registers of the narrowest elements that are computed together where there is no fold (of the widest ones twice
    as many; half of both beside a tile): as many as hide how long a load takes."""

    mixed_registers: int = 8
    """As ``plain_registers``, of the widest elements at most, where others are narrower."""

    tiled_registers: int = 2
    """As ``plain_registers``, of the widest elements, where several points or rows beside share what folds load."""

    folded_registers: int = 2
    """As ``plain_registers``, where all steps of the folds are written out: the results wait for one another less."""

    looped_registers: int = 8
    """As ``plain_registers``, of the widest elements, where folds are loops: sums side by side hide how long a step
    takes."""

    scattered_registers: int = 16
    """As ``looped_registers``, where ``followed_places`` steps or more read places far from one another, and there are
    32 registers and work items enough: longer runs at each place."""

    followed_places: int = 32
    """Places in memory that a processor reads ahead at, each as far as it has been read in order."""

    least_square: int = 4
    """Rows and columns from which on squares are transposed in registers: smaller ones take as many instructions as
    their elements one by one."""

    repeated_part: float = 1 / 32
    """The part of a row that may be computed twice where shorter vectors, of a register or more, repeat less of it:
    writing to lines again that were just left makes a stream of them a fifth slower."""

    least_vectors: int = 4
    """Vectors of the part of a vector axis that is a work item of its own, at least."""

    many_registers: int = 32
    """Registers of a processor from which on ``tiled_points`` fit."""

    tiled_points: int = 12
    """Points of a tile that share the loads of a sum of products, where there are ``many_registers``."""

    few_tiled_points: int = 4
    """As ``tiled_points``, where there are fewer registers."""

    tiled_sums: int = 32
    """Points of a tile at most, each counted for every sum of products that it has: what one comes to waits on the
    stack, which is small, until the others are done."""

    row_registers: int = 8
    """Registers of sums of the rows that are computed together: as many as hide how long a multiply-add takes."""

    row_steps: int = 128
    """Steps of a fold for all the rows that are computed together, which are written out one after the other."""

    most_points_written_out: int = 256
    """Points of an image up to which folds over them, as means of channels that lie side by side, are written out: what
    they come to stays in registers. Of 14x14 points they take half the time of partial results in memory."""

    rows_side_by_side: int = 4
    """Sums whose partial results are lanes that are done step by step together: what all of them load is loaded once,
    and not pushed out of the nearest cache by what each loads. One row times 512 to 16384 others takes 5 to 30% less
    time (Zen 5)."""

    sums_side_by_side_bytes: int = 1536
    """Bytes of the partial results of all points of a tile, three quarters of the registers, up to which their sums are
    done step by step together: what a step loads for all of them is loaded once. Two or three rows times the rows of a
    matrix take a fifth to two fifths less time (Zen 5)."""

    near_rows_bytes: int = 38 << 10
    """Bytes of what each of these points reads of its own up to which that is so: of more than the nearest cache has
    beside what they share, all of them go through it one after the other."""

    least_rows: int = 4
    """Rows that are computed together however many steps these are, since what they load is shared."""

    most_window_rows: int = 8
    """Rows of windows whose channels lie side by side that are computed together where there are many registers: half
    of them are sums, the others the weights of a row of a filter. So many if a window has more than
    ``near_window_steps`` steps, or if fewer leave rows over, of which some are computed twice. Depthwise convolutions
    of 7x7 taps take 3% (28x28) to a third (7x7) less time than with four, of 3x3 taps and 14x14 or 7x7 points a fifth
    (Emerald Rapids)."""

    near_window_bytes: int = 60 << 10
    """Bytes that overlapping windows, whose channels lie side by side, read along these, and write, up to which most of
    them are in the nearest cache when the next windows come, as many as one and a quarter of it has. With more, some
    channels are done after the others: depthwise convolutions of 14x14 and 7x7 take a fifth less time (Zen 3)."""

    near_window_steps: int = 25
    """Steps of a window at most for that: those of larger ones are more work for all they read, and take a fifth longer
    with it."""

    window_run_bytes: int = 256
    """Bytes of channels of a point that are done together then: four lines of memory."""

    extreme_rows: int = 7
    """Rows of windows whose extremes are found together at most, since what they have in common is gone through once:
    half of 32 registers wait for whether there is NaN."""

    unrolled_steps: int = 64
    """Steps of a fold that are written out one after the other at most."""

    unrolled_loads: int = 63
    """Loads of the steps of a fold that are written out at most, but for sums of products: LLVM keeps 64 and more of a
    block apart from what they are for, and has registers for none of them (extremes of 64 rows take twice as long as
    by a loop, those of 63 two thirds)."""

    unrolled_operations: int = 512
    """Operations of the steps of a fold that are written out at most: code beyond that costs compilation time only."""

    most_cases: int = 6
    """How often a body is doubled for conditions on outer axes; further conditions are tested where they stand."""

    border_steps: int = 100
    """Steps of windows at the places of an axis where some of them are outside, up to which each place has code of its
    own, if all lanes are at the same place."""

    overlapping_steps: int = 48
    """Steps of windows at all points that are computed together, and share what they load, up to which all are written
    out; of more those along the outer axes of a window are loops."""

    most_ends: int = 4
    """Parts of an axis, at both of its ends, that get code of their own."""

    least_edge: int = 4
    """Lanes from which on the ends of a row are worth a vector of their own."""

    kept_operations: int = 4
    """Operations from which on it is faster to store a value of a row and load it than to compute it again."""

    slow_operation: int = 8
    """What a division or a square root counts as among these."""

"""The factors of matrix products, as panels and copies (``refine/matrix_products.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class MatrixKnobs:
    """When a factor of a product is copied, and how wide its panels are."""

    panel: int = 64
    """Columns, or output channels, of a panel, the copied form of weights: whole registers on every processor."""

    last_panel: int = 128
    """The same of the factor of a chain's last product, as attention's values are: as many as a tile has, where these
    are fewer than what a row of values usually has."""

    matrix_panel_registers: int = 3
    """Registers of columns of a panel of a matrix that ``rows_of_tiles`` read: as many as a tile has, so that its steps
    follow one another in memory; one less where columns would be left over and there are not ``panels_beside_rest``."""

    rows_of_tiles: int = 7
    """Rows of a product from which on tiles as wide as these have enough sums side by side."""

    few_rows: int = 4
    """Rows or columns of a product below which the other matrix is not copied: it would be read once or twice only."""

    few_rows_panel_bytes: int = 1 << 20
    """Bytes of a fixed right matrix from which on it lies in panels for fewer rows, too, or in the order in which one
    row goes through its rows: it comes from beyond the second-level cache, faster in one run than a piece from each of
    its rows, which are on pages of their own. One row times 128 to 2048 others takes 15 to 30% less time (Zen 5)."""

    parted_steps: int = 20
    """Steps of the sums of such a row from which on, where registers hold the partial results of one column alone, a
    part of them is summed up at a time, for several columns side by side: what they come to is stored and read once
    more. With AVX2 one row times 128 rows of 9216 takes two thirds of the time, times 1000 of 2048 and 4096 of 4096 a
    tenth to a quarter less; times 50256 of 768 it would take a tenth longer (Zen 4)."""

    widened_panel_rows: int = 24
    """Rows of a product from which on such panels of a narrower type are widened when they are laid out: widening takes
    longer than it takes to bring twice as many bytes."""

    columns_of_rows: int = 128
    """Columns of a product from which on a copy of a left matrix pays off that is not contiguous along its rows, nor
    near by columns."""

    crowded_column_bytes: int = 1024
    """Bytes from a step to the next one of which multiples leave the columns of a left matrix too few places in the
    nearest cache where there are few registers: tiles read a third of each line, and the rest is gone before the next
    one comes. With 512 rows a copy takes the product from 4.8 to 2.8 ms, with 256 from 0.44 to 0.35 (Zen 3). Elsewhere
    it is whole pages."""

    panels_beside_rest: int = 8
    """Panels, of a matrix or of words, from which on they are worth a kernel of its own for the columns that are
    left."""

    slow_denormals: bool = True
    """Whether a step of a product takes about a hundred times as long with a denormal number: where one factor may have
    many, sums are bounded first."""

    bounded_bytes: int = 256 << 20
    """Bytes up to which the copy of a left matrix is made that bounds of such sums are computed from: four times as
    large as it. Beyond, that is more memory than anybody expects of a product."""

    few_bits_rows: int = 8
    """Rows of a product up to which fixed weights of 4 bits stay so in memory: they are dequantised by every tile of
    rows anew. 1 row times 2048x5632, 4 times: 2.6 ms, 4 rows 4.7 and not 6.0, 8 rows 6.9 and 7.6, 12 rows 13.6 and
    11.1 (Emerald Rapids, 2 threads)."""

"""Contractions: the tiles that are tried (``contractions/tiles.py``, ``matrix_tiles.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class TileKnobs:
    """Their bounds."""

    most_vectors: int = 4
    """Registers along the vector axis at most."""

    most_tile: int = 16
    """Points along the tile axis at most."""

    most_points: int = 28
    """Points of a tile of several rows at most, beside one vector: as many sums as stay in 32 registers."""

    smaller_tiles: int = 4
    """How many times as many tiles along the tile axis as there have to be are tried at most."""

    steps_written_out: int = 8
    """Steps of a sum at most that are written out one after the other where there are few registers: a step is short
    then, and counting it and asking for what comes next are as many instructions as a third of it."""

    few_steps_written_out: int = 4
    """The same of what has ``little_work``. Rows of windows are whole still. Products of 19x64 by 64x128 and of 128x128
    matrices take as long as with eight steps, of 1024x1024 3% longer (Zen 3, AVX2)."""

    little_share: float = 1 / 8
    """The part of all sums up to which tiles of the points that are left have that few steps written out, too."""

    worth_code: float = 1 / 64
    """By which part sums have to take less time where points that are left have a tile of their own, and its code."""

    cycles_worth_code: int = 192
    """Cycles of all sums that this has to take less at least. Of products of 19x64 by 64x128 and the like the code is
    a half to a third then, and they take as long; convolutions of 64 to 32 channels of 14x14 would take a twelfth
    longer with 256 (Zen 3, AVX2)."""

    redone_work: int = 2048
    """Multiply-adds of a register up to which rows and strips that are left are done with others before them once more,
    as all others are: half a microsecond. LLVM takes ten milliseconds for code of their own."""

    redone_part: float = 1 / 8
    """The part of all sums that this may be at most."""

    hardly_redone: float = 1 / 128
    """The part of all sums up to which they are done once more whatever the work."""

    fewest_redone: int = 8
    """Points of such a tile beside its vectors at least: those of fewer wait for what they load."""

    rows_written_out: int = 16
    """Rows of sums in tile registers at most of which what is made of them is written out one after the other, in a
    loop over the others: of 32 rows LLVM keeps no constant in a register (networks of int8 take 3% longer)."""

    fewest_words: int = 4
    """Words of a step in tile registers at least: a product of fewer takes as long as one of 16."""

    halved_registers: int = 64
    """Bytes of a vector register from which on tiles may have vectors of half of one. Halves of narrower ones gain
    nothing, and products of 4 rows with 64x256 take a sixth longer with them (AVX2)."""

    most_panel_bytes: int = 4 << 20
    """Bytes of a strip of a panel at most."""

    long_results: int = 12
    """Operations from which on what is made of sums is a loop over those of a tile."""

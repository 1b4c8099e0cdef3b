"""Factors of bytes that are packed in words (``refine/words.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class WordKnobs:
    """When bytes are packed, and how wide panels of words are."""

    packed_uses: int = 6
    """Products of bytes for each element of a factor from which on both factors are packed in words: packing costs a
    few instructions for each element, and a product of words saves one or two. As many products as packing is worth
    were measured for 4 (VNNI) to 7 (AVX-512 without it)."""

    word_uses: int = 3
    """Products of bytes for each word of the rows of windows from which on these are packed: a word of neighbours takes
    about as many instructions as three products without one."""

    word_panel_registers: int = 2
    """Registers of columns of a panel of words: as many as a tile has, so that its steps follow one another in
    memory."""

    packed_steps: int = 3
    """Steps of the axis that is packed, at least: shorter ones leave most of each word empty."""

    aliased_points: int = 256
    """Bytes of a point's channels, where channels lie side by side. Points that windows read are a cache line further
    apart where these are a multiple of it: else they share every fourth set of the nearest cache, or fewer, with the
    weights that go through it meanwhile. ResNet-50's windows with a stride over 256 and 512 channels take 5 to 7% less
    time (Emerald Rapids)."""

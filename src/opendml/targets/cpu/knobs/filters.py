"""The factors of convolutions: panels of filters, padded copies and columns of windows (``refine/convolutions.py``,
``refine/transposed_convolutions.py``, ``refine/copies_of_factors.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class FilterKnobs:
    """When filters and images are copied, and how wide panels are."""

    filter_panel_registers: int = 2
    """Registers of output channels of a panel of a filter: as many as a tile has, so that its steps follow one another
    in memory, and the next strip behind them."""

    least_padding: float = 0.008
    """The part of the products of a convolution from which on it leaves those out that are of its padding: of 3x3
    windows over 56x56 places it is 2%, over 14x14 9%, over 7x7 18%."""

    padding_worth_looking: float = 16
    """Products in the padding, of each weight, from which on the weights of a filter that is not fixed are looked at
    every time, to know whether these may be left out."""

    padding_worth_code: float = 1 << 20
    """Products in the padding from which on such a filter has code of its own for leaving them out, besides the code
    that does not: of 16 channels over 14x14 places it would save 1 us and take 35 ms more to compile."""

    least_padding_of_tiles: float = 0.008
    """The same along an axis of which tiles have several points: the steps of each of its taps are written out."""

    most_taps_written_out: int = 9
    """Taps, along all such axes together, up to which that is done."""

    most_tiles_written_out: int = 4
    """Tiles of a row, or of several, up to which that is done: each has code of its own."""

    streamed_panel: int = 16
    """Output channels of a panel of a filter that ``streamed_windows`` share: as many as a vector has on the widest
    processors. Its weights come from beyond the second-level cache, once each, so they are read in one run."""

    streamed_windows: int = 64
    """Windows of one image up to which as many of them as have registers for their sums share every vector of such a
    panel."""

    fewest_panel_steps: int = 512
    """Steps of a sum from which on panels of the filter of a convolution with one tap pay off, where that is fixed: a
    tile of many channels is transposed before it is stored, which has to be little beside its sums. Half as many for
    images of ``small_plane``."""

    small_plane: int = 256
    """Windows of an image up to which the planes of several channels are on a page: a tile stores to all of its
    channels' planes."""

    medium_plane: int = 1000
    """Windows of an image up to which such panels pay off where there are several images, too: the planes of as many
    channels as a tile has are on hardly more pages."""

    large_registers: int = 512
    """Bytes of all vector registers of a processor from which on such tiles, and ``streamed_panel``, pay off: 16 of 32
    bytes, or 32 of 16."""

    narrowest_panel: int = 16
    """Output channels of a group from which on panels of a filter pay off."""

    windows_worth_panels: int = 128
    """Windows (outputs of one channel in the whole batch) from which on they pay off if they are made every time."""

    few_windows: int = 8
    """Windows up to which a filter that is fixed is laid out in panels whatever its size: they fill no register, so
    vectors are of output channels, which would be read from as many rows of the filter."""

    most_guarded_taps: int = 49
    """Taps up to which the sums of a depthwise convolution test for the padding themselves, without a padded copy."""

    padded_growth: int = 16
    """How many times the elements of input and output a copy with zeros around may have, or one of every window; beyond
    it loads are guarded."""

    unpadded_elements: int = 1 << 16
    """Elements that such a copy may have in any case."""

    side_by_side_channels: int = 16
    """Channels of a sum from which on a padded copy has their rows side by side: as many planes are more pages than
    processors follow, and fewer are copied faster plane by plane."""

    wide_row: int = 12
    """Elements of an output row from which on as many as fill the registers can be computed together. The windows of
    narrower ones of one image share every vector of such a panel as few windows do."""

    windows_without_columns: int = 192
    """Windows from which on narrow rows do not matter: copies of the filter are shared by enough of them."""

    outputs_worth_columns: int = 64
    """Output channels of a group from which on a copy of every window pays off."""

    most_phases: int = 64
    """Phases of a transposed convolution (the product of its strides) up to which each has a statement of its own."""

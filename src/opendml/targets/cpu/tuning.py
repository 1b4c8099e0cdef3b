"""What the CPU's schedules and code are steered by: every knob, with its unit and the reason for its value.

Nothing here changes a result. Facts of a processor are in its ``Machine``; what a format or a guarantee fixes (the
alignment of memory, the bound of a stack) is no knob and stands where it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from opendml.graph.costs import GRAPH_COSTS, GraphCosts
from opendml.loops.placement import PLACEMENT, Placement

_GRAPH: Final = replace(GRAPH_COSTS, margined_row=7)
"""Rows down to those of the last layers of networks have margins: a vector reaches four of them then."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The knobs. Another value is another entry of the cache: ``dataclasses.replace(TUNING, serial_work=0)``."""

    graph: GraphCosts = _GRAPH
    """What fusion weighs: a package before this one defines these knobs, since it is fusion that asks them."""

    # Refinement: what statements are made of definitions -------------------------------------------------------------

    scattered_block: int = 16
    """Elements of a block from which on a scatter updates blocks as a whole."""

    scattered_columns: int = 128
    """Columns of a block at most that a thread updates by itself: some cache lines of every row."""

    scattered_columns_bytes: int = 1 << 20
    """Bytes of such a block at most: half a second-level cache. Blocks half as wide take a quarter longer: as much less
    of every row is read at once."""

    scattered_rows_bytes: int = 4096
    """Bytes of rows, at least, that a thread updates by itself: what three calls cost is little beside that."""

    most_scattered_rows_bytes: int = 1 << 17
    """Bytes of such a row at most: a tensor that is far has many of them, and each thread some."""

    updates_worth_copies: int = 4
    """How many times more elements than updates there may be that blocks are worth it, since all of them are copied."""

    compacted_piece: int = 1024
    """Elements of a piece of a compaction: a piece of a large tensor is little work for a thread, and what it keeps of
    a piece (2 bytes an element) stays in a first-level cache. At most 65536, as places in it have 16 bits."""

    alternating_copies: int = 8
    """Copies that take turns within a row and are joined to one statement at most."""

    alternating_bytes: int = 4096
    """Bytes of such a row at most: of longer ones each piece is long enough by itself."""

    margin_elements: int = 1 << 16
    """Elements that a tensor may have in any case with a margin of zeros: beyond the caches it has to pay off."""

    margin_growth: int = 3
    """How many times larger the margin may make the tensor then."""

    column_repeats: int = 2
    """Rows that have values of slow functions in common, such as square roots, from which on these get a tensor."""

    table_growth: int = 4
    """How many times larger than what is summed and what comes of it a table of the sum's weights may be, and one of
    places than what comes of these."""

    table_operations: int = 3
    """Operations of a weight from which on it is worth a table."""

    table_reads: int = 4
    """How many times as often as there are places in a table of samples it is to be read."""

    fewest_channels: int = 8
    """Channels from which on they are a vector where the places of everything else are loaded numbers."""

    channel_loads: int = 2
    """How many times as often as they have elements tensors are to be read that their channels are copied to the
    end."""

    limited_steps: int = 2
    """Steps that a fold which goes on for as long as a loaded number says is taken to have."""

    unit_block: int = 32
    """Units of a network whose weights lie side by side: two AVX-512 registers."""

    few_units: int = 256
    """Units up to which twice as many lie side by side for a batch of 1: a sum then waits less for its own last step.
    Beyond that more blocks are better, which threads share out."""

    projected_growth: int = 16
    """How many times the elements of their inputs those of a tensor may be that is computed for all steps at once, for
    each time that it is read in a step."""

    projected_elements: int = 1 << 16
    """Elements that such a tensor may have in any case."""

    rows_at_once: int = 1 << 16
    """Elements between two products up to which all are computed at once, one statement after the other, by all
    threads."""

    block_elements: int = 1 << 16
    """Elements between two products that a block of rows has: 256 KiB of float32, and as much for what is made of them,
    stay in a second-level cache. There are ``items`` blocks, at least, where there are rows enough."""

    fewest_rows: int = 14
    """Rows of a block at least, however long, and of which a block has whole multiples: as many share what a product
    loads on the widest processors."""

    kept_channels_bytes: int = 512 << 10
    """Bytes that a block of channels has between a product and the windows over it: they stay in a second-level cache,
    beside what the product reads."""

    fewest_kept_channels: int = 8
    """Channels of such a block at least: as many share what the product loads."""

    most_kept_channels: int = 32
    """Channels of such a block at most: more make nothing faster, and leave shares that are less even."""

    most_kept_steps: int = 160
    """Steps of sums over windows up to which these are done for a block of channels, as those of a network's first
    convolution: what more steps read is no longer near when the next block wants it."""

    kept_window_channels: int = 16
    """Channels of such a block: as many as the widest registers have lanes."""

    kept_window_bytes: int = 1 << 20
    """Bytes that such a block has between the sums and the windows over them: half a second-level cache, as what the
    sums read comes but once for each block."""

    blocks_of_channels: int = 64
    """Such blocks at least, four for each of sixteen threads: these share them out in whole ones. Where sums over
    windows come first half as many do."""

    fewest_kept_bytes: int = 1 << 20
    """Bytes of all blocks from which on they are not all in caches anyway."""

    fewest_kept_points: int = 512
    """Points of an image from which on vectors along them leave few lanes over, where images are done one by one."""

    rows_worth_copies: int = 16
    """Rows that read all of a product's right factor from which on it is copied, if it does not lie row by row."""

    # Work items ------------------------------------------------------------------------------------------------------

    serial_work: int = 32768
    """Steps of a kernel below which waking other threads costs more than it saves."""

    line_work: int = 8
    """Steps that a point counts as whose store has a line of memory for itself."""

    items: int = 64
    """Work items that a kernel is cut into at least, where it is large enough: a multiple of usual numbers of
    threads."""

    large_work: int = 1 << 22
    """Steps of a sum of products from which on it is cut into ``many_items``: they still take some ten microseconds."""

    many_items: int = 128
    """Work items that such a kernel is cut into at least, where it is large enough: even shares for a dozen threads and
    more."""

    pooled_work: int = 1 << 18
    """Steps of a kernel from which on some work items of every share are for whichever thread is done first."""

    pooled_part: float = 0.25
    """Which part of a share: by as much threads may fall behind each other, as processors are shared and not equally
    fast. A thread takes of its own first, since it reads what it wrote in the kernel before."""

    pooled_runs: int = 64
    """Runs in which these items are taken at most. Threads that take small items one by one wait for the counter most
    of their time, and read and write memory in pieces; one run is what they may differ by in the end."""

    tile_block: int = 96
    """Points of the tiled axis that one work item covers, so that their operands stay in the second-level cache."""

    work_between_looks: int = 1 << 18
    """Steps of a kernel, or of several, after which a thread looks whether it is to go on: some hundred microseconds
    at most, beside which the look costs nothing."""

    ordered_keys: int = 16
    """Keys of an order that are looked at together at most: each gets code that appends it."""

    counted_candidates: int = 96
    """Candidates of an order that are counted against one another at most: more are ordered digit by digit."""

    gathered_candidates: int = 16
    """Candidates at least that are gathered beside those wanted before all are ordered."""

    # Refinement: layouts of the factors of sums of products ----------------------------------------------------------

    panel: int = 64
    """Columns, or output channels, of a panel, the copied form of weights: whole registers on every processor."""

    filter_panel_registers: int = 2
    """Registers of output channels of a panel of a filter: as many as a tile has, so that its steps follow one another
    in memory, and the next strip behind them."""

    matrix_panel_registers: int = 3
    """Registers of columns of a panel of a matrix that ``rows_of_tiles`` read: as many as a tile has, so that its steps
    follow one another in memory; one less where columns would be left over and there are not ``panels_beside_rest``."""

    rows_of_tiles: int = 7
    """Rows of a product from which on tiles as wide as these have enough sums side by side."""

    few_rows: int = 4
    """Rows or columns of a product below which the other matrix is not copied: it would be read once or twice only."""

    few_rows_panel_bytes: int = 1 << 20
    """Bytes of a fixed right matrix from which on it lies in panels for fewer rows, too: it comes from beyond the
    second-level cache, faster in one run than a piece from each of its rows, which are on pages of their own."""

    widened_panel_rows: int = 24
    """Rows of a product from which on such panels of a narrower type are widened when they are laid out: widening takes
    longer than it takes to bring twice as many bytes."""

    columns_of_rows: int = 128
    """Columns of a product from which on a copy of a left matrix pays off that is not contiguous along its rows, nor
    near by columns."""

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
    """Elements of an output row from which on as many as fill the registers can be computed together."""

    windows_without_columns: int = 192
    """Windows from which on narrow rows do not matter: copies of the filter are shared by enough of them."""

    outputs_worth_columns: int = 64
    """Output channels of a group from which on a copy of every window pays off."""

    most_phases: int = 64
    """Phases of a transposed convolution (the product of its strides) up to which each has a statement of its own."""

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

    panels_beside_rest: int = 8
    """Such panels from which on they are worth a kernel of its own for the columns that are left."""

    packed_steps: int = 3
    """Steps of the axis that is packed, at least: shorter ones leave most of each word empty."""

    # Vectors and tiles -----------------------------------------------------------------------------------------------

    interleaved_sizes: tuple[int, ...] = (2, 3, 4, 8)
    """Sizes of a last axis that is interleaved in registers, in points."""

    transposed_bytes: int = 64
    """Bytes of a row of the squares that are transposed in registers at most: a register, or a line."""

    transposed_points: int = 32
    """Rows and columns of such a square at most: the registers of a processor."""

    shuffled_stride: int = 4
    """Largest step between neighbouring lanes, in elements, that is loaded as whole vectors and picked apart by
    shuffles: of further ones most of what is loaded is of no use."""

    plain_registers: int = 4
    """Registers of the narrowest elements that are computed together where there is no fold (of the widest ones twice
    as many; half of both beside a tile): as many as hide how long a load takes."""

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

    least_rows: int = 4
    """Rows that are computed together however many steps these are, since what they load is shared."""

    unrolled_steps: int = 64
    """Steps of a fold that are written out one after the other at most."""

    unrolled_operations: int = 512
    """Operations of the steps of a fold that are written out at most: code beyond that costs compilation time only."""

    most_cases: int = 6
    """How often a body is doubled for conditions on outer axes; further conditions are tested where they stand."""

    most_ends: int = 4
    """Parts of an axis, at both of its ends, that get code of their own."""

    least_edge: int = 4
    """Lanes from which on the ends of a row are worth a vector of their own."""

    kept_operations: int = 4
    """Operations from which on it is faster to store a value of a row and load it than to compute it again."""

    slow_operation: int = 8
    """What a division or a square root counts as among these."""

    # Outputs past the caches -----------------------------------------------------------------------------------------

    streamed_bytes: int = 8 << 20
    """Bytes of outputs from which on they are written past the caches: larger than the second-level caches of one
    core."""

    staged_squares_bytes: int = 8 << 20
    """As ``streamed_bytes``, of outputs of squares that are transposed in registers: one by one their rows would be
    written to many places in turn."""

    streamed_row_bytes: int = 4096
    """Bytes of a row from which on it is written past the caches as it is; shorter ones are gathered in a stage."""

    staged_steps: int = 4
    """Steps of folds up to which a stage pays: with more, the arithmetic hides how long ordinary stores take."""

    stage_bytes: int = 16384
    """Bytes of neighbouring rows of all outputs that are computed in a stage, which stays in the first-level cache."""

    transposed_stage_bytes: int = 131072
    """Bytes of a stage that takes squares: in the second-level cache, so that runs are long in the input and the
    output."""

    # Prefetches ------------------------------------------------------------------------------------------------------

    prefetched_bytes: int = 4 << 20
    """Size of a tensor from which on the lines that will be read are asked for ahead: smaller ones stay in a cache."""

    prefetch_distance: int = 2048
    """How many bytes ahead."""

    staged_prefetch_distance: int = 4096
    """How many bytes ahead where a stage is filled: nothing is asked for while it is emptied."""

    summed_prefetch_distance: int = 4096
    """How many bytes ahead in a run that a sum of products goes through once and widens."""

    row_prefetch_distance: int = 6144
    """How many bytes ahead, into the second-level cache, in rows that sums of products go through one after the other:
    one thread then reads memory a sixth to two fifths faster."""

    stored_prefetch_distance: int = 1024
    """As ``prefetch_distance``, of lines that will be written, but not past the caches; 0: none is asked for. It costs
    nothing where they are near already; in a network they are those of another run, and rows that are interleaved take
    a quarter to a third less time."""

    prefetched_run_bytes: int = 16384
    """Bytes of a row from which on lines are asked for along it where a loaded number chooses which row comes next;
    while a shorter one is read, that next one is asked for: too much of what is ahead lies behind the row."""

    choosing_operations: int = 8
    """Operations up to which the place of the next row is computed for that."""

    prefetch_steps: int = 8
    """How many steps of a fold ahead, if each of them reads another place. The last ones find nothing of use there, so
    it is an eighth of the fold's steps at most, and not done where these are few."""

    window_bytes: int = 1 << 17
    """How far the steps of a fold may spread at most for that: further ones would read the lines too late."""

    hiding_operations: int = 12
    """Operations at each point of a row from which on a fold asks for the next row: as many as take about as long as
    its memory does."""

    next_row_bytes: int = 1 << 18
    """Bytes of a row up to which that is done: the row, the next one and what is kept of it want to stay in the
    second-level cache."""

    # Scans and scatters ----------------------------------------------------------------------------------------------

    scan_items: int = 16
    """Work items of a scan, at least, where it is large enough: fewer and longer rows are better."""

    scanned_registers: int = 4
    """Registers of state that go through a scan together: a sum waits some cycles for the one before it."""

    scanned_row_bytes: int = 16384
    """Bytes of state of the points that a work item of a scan covers at most: half a first-level cache."""

    scanned_together: int = 2
    """Points of a scan that lie apart and go step by step together: a sum waits four cycles for the one before it.
    More would write to more lines at once."""

    scattered_run: int = 64
    """Points of an axis behind others that one work item of a scatter covers at least: several cache lines a row."""

    # Contractions: the model of their cost, in cycles ----------------------------------------------------------------

    vector_side_bytes: int = 768 << 10
    """Bytes of the factor along the vector axis that a work item reads again and again, from a second-level cache."""

    tile_side_bytes: int = 2 << 20
    """Bytes of the factor along the tile axis up to which strips of transposed tiles go through all of them, in parts
    of ``vector_side_bytes``: more come from memory, and those along the vector axis are better read again."""

    kept_side_bytes: int = 1 << 20
    """Bytes of the smaller factor up to which they do."""

    vector_side_bytes_of_words: int = 256 << 10
    """The same of products of words, whose other factor is read again for each such part at little cost: a byte of it
    is worth four times as many products as one of a float."""

    most_vectors: int = 4
    """Registers along the vector axis at most."""

    most_tile: int = 16
    """Points along the tile axis at most."""

    most_points: int = 28
    """Points of a tile of several rows at most, beside one vector: as many sums as stay in 32 registers."""

    latency: int = 4
    """Cycles from a fused multiply-add to the next one of the same sum."""

    issued: int = 2
    """Multiply-adds, and loads, that begin in a cycle."""

    scalar_loads: float = 1.25
    """Loads that a scalar counts as where multiply-adds do not take it from memory by themselves: it is an instruction
    of its own then, and needs a register until its last multiply-add. Tiles of several vectors load fewer of them."""

    smaller_tiles: int = 4
    """How many times as many tiles along the tile axis as there have to be are tried at most."""

    worth_code: float = 1 / 64
    """By which part sums have to take less time where points that are left have a tile of their own, and its code."""

    fewest_words: int = 4
    """Words of a step in tile registers at least: a product of fewer takes as long as one of 16."""

    tile_product: int = 16
    """Cycles of a product of two tile registers: a row a cycle."""

    tile_load: int = 8
    """Cycles for loading a tile register: two rows a cycle."""

    tile_store: int = 4
    """Cycles for what is done with a row of sums of a tile register: stored, loaded again, and stored."""

    scattered_store: int = 2
    """Cycles for storing an element of a tile by itself."""

    near_cache_bytes: int = 24
    """Bytes a cycle that the second-level cache gives."""

    far_cache_bytes: int = 5
    """Bytes a cycle that a thread of many gets of what all of them read, from the last cache or one another's."""

    many_threads: int = 16
    """Threads that share out a kernel, where it matters what each of them does for itself."""

    loading_share: float = 0.1
    """The part of the time that vectors take from that cache which does not pass while sums are done."""

    packing: float = 0.75
    """Cycles for copying an element of a factor into a panel."""

    transposing: float = 0.8
    """Cycles for doing so where it is not contiguous there."""

    most_panel_bytes: int = 4 << 20
    """Bytes of a strip of a panel at most."""

    short_sums: int = 64
    """Steps of sums up to which it is their stores that take most of the time: work items then have rows of outputs at
    least as long as a page."""

    far_penalty: float = 1.3
    """How much longer steps take that load scalars from far apart places, vectors each from a page of its own, or
    vectors that begin anywhere in a line."""

    prefetched_penalty: float = 1.1
    """How much longer steps take that load what is far apart, but was asked for."""

    lost_penalty: float = 1.8
    """How much longer steps take that load vectors for ``many_steps``, or so far apart, that none of them is still near
    when the next tile wants it."""

    many_steps: int = 1024
    """Steps of a fold of which the vectors do not stay near."""

    repacked_penalty: float = 1.15
    """How much longer tiles take that are turned, of vectors that are packed first: what they read along the tile axis
    is then what vectors could have read, in the order of the other side."""

    aliased_rows: int = 8
    """Rows whole pages apart fall into the same places of the nearest cache: how many of them it bears."""

    aliased_penalty: float = 1.2
    """How much longer steps take with more of them, up to twice as many; with still more, ``lost_penalty``."""

    far_tile_bytes: int = 256 << 10
    """Bytes of the factor along the tile axis from which on the next tile's are asked for while sums are done."""

    longest_next_row: int = 16 << 10
    """Bytes of all steps of a point up to which the next tile's are asked for: of what is longer than a page only where
    it comes from memory (``prefetched_bytes``)."""

    asking_part: float = 0.75
    """The part of a sum's steps between which what a tile stores, and what its results read, is asked for line by line:
    all at once would be more than a processor can wait for, and what the sums load would wait behind it."""

    fewest_asking_steps: int = 4
    """Steps of such a sum at least between which that is done: all sums of a tile go through a loop within a loop."""

    asking_tiles: int = 4
    """Tiles along the tile axis up to which each asks for all that the next strip of the other side loads."""

    near_bytes: int = 256
    """Bytes from one step to the next up to which processors see by themselves what comes next."""

    near_strip_bytes: int = 16 << 10
    """Bytes of all steps of a strip up to which it stays in the nearest cache, beside what the tiles read. Of longer
    ones vectors are asked for ahead: sums of products then take a twentieth to a twelfth less time."""

    steps_at_once: int = 32
    """Steps after which sums wait in memory, where steps are on pages of their own: as many pages as processors know
    the addresses of; so many multiply-adds for each sum that is stored and loaded again."""

    steps_of_few_rows: int = 8
    """The same for fewer rows than ``rows_of_tiles``, which wait for memory: so few runs processors read ahead by
    themselves, faster than they are asked."""

    steps_of_deep_sums: int = 1024
    """The same where there are few sums of so many steps that what these read comes from beyond the second-level cache:
    runs of a page, of which as many as there are rows and columns stay in that cache."""

    waiting_bytes: int = 32 << 10
    """Bytes of all sums up to which they do: each thread has a place for them in a near cache."""

    fewest_interrupted: int = 4
    """How many times as many steps there are, at least, where sums wait."""

    interrupted_rows: int = 48
    """Points along the tile axis up to which they do: for more it is worth it to copy the other side."""

    filling_registers: int = 2048
    """Bytes of all vector registers of a processor from which on the first tiles may copy the other side, while they
    are summed up, instead of waiting: 32 of 64 bytes."""

    filling_rows: int = 12
    """Points along the tile axis from which on they do."""

    filling_steps: int = 1024
    """Steps of a fold from which on they do: of fewer, each on a page of its own, more stays near."""

    filling_bytes: int = 16 << 20
    """Bytes of that other side up to which they do: what comes from memory comes faster in long runs than a vector at
    every step."""

    filling_share: float = 0.4
    """The part of ``packing`` that such a copy takes: every vector is loaded for a sum anyway."""

    interrupted_items: int = 16
    """Work items that such a kernel is cut into at least, where it is large enough, half as many for so few rows."""

    run_bytes: tuple[int, int] = (512, 4096)
    """Bytes of what the tiles of such a work item read together at each step, at least and at most."""

    parted_times: int = 2
    """How many times larger than the other factor one is, at least, of which each thread has a part of its own."""

    page_bytes: int = 4096
    """Bytes from one step to the next from which on each step is on a page of its own."""

    tile_overhead: int = 40
    """Cycles that a tile takes beside its loads and multiply-adds."""

    step_overhead: int = 1
    """Cycles that a step of the fold takes beside these."""

    block_unevenness: float = 1 / 16
    """By how much of an axis its blocks may together be too long."""

    strided_load: int = 3
    """Loads of contiguous vectors that one costs whose lanes are a few elements apart."""

    steps_ahead: int = 16
    """How many steps of a sum before they are loaded vectors are asked for."""

    copied_steps_ahead: int = 4
    """How many steps of a sum before they are copied to a panel, at the same time, vectors are asked for: of matrices
    whose rows are whole pages further ones would push out one another."""

    streamed_steps_ahead: int = 64
    """As ``steps_ahead``, of vectors that follow one another in memory and that all threads read, as panels of weights
    do: they come from beyond the second-level cache, in some hundred cycles."""

    # Programs --------------------------------------------------------------------------------------------------------

    placement: Placement = PLACEMENT
    """How long places for temporaries are looked for."""

    module_size: int = 1 << 16
    """Characters of kernels from which on the next ones go to another module, which may be compiled at the same
    time."""

    first_module_size: int = 1 << 13
    """The same for the first module; each has room for twice as much as the one before it. So there is work for
    several threads in small graphs, and large ones have hardly more modules."""

    stacked_scratch_bytes: int = 2048
    """Bytes of a thread's own memory up to which it lies on the stack: small programs are called without other
    memory."""

    long_run: int = 64
    """Calls of one function in a row from which on they are a loop."""

    like_statements: int = 2
    """Statements with folds, or long ones, that share a function if they differ in constants outside of folds alone: a
    load of a number once a point costs nothing beside a sum, and the function of a convolution takes LLVM a tenth of a
    second."""

    long_statement: int = 24
    """Different expressions of a statement from which on it is a long one. Activations of quantised tensors have 30 and
    more, and their functions hundreds of thousands of characters where axes are turned."""

    many_pointers: int = 512
    """Tensors from which on the entry has their pointers where it uses them instead of all at its beginning: LLVM takes
    the longer over each call the more of them are alive."""


TUNING: Final = Tuning()
"""The knobs as they are for everybody."""

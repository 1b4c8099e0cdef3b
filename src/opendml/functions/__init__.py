"""The operators as functions: ``opendml.max_pooling(x, window_size=[2, 2])``, with defaults as in DirectMLX.

A function takes arrays, of NumPy or of anything with DLPack or the buffer protocol, infers the sizes of the outputs,
makes the operator's descriptor and runs its program, which is compiled once for the same types, sizes, strides and
parameters and kept in memory. Arrays are used in place with the strides that they have, views included; only negative
strides and unaligned elements are copied first. Numbers, lists and NumPy's bools stand for tensors, too, and sizes
broadcast, by the rules of ``opendml.building.operands``: strides of 0, which cost nothing.

Tensors are given by position, in DirectML's order, and everything else by name: no order to remember, none to confuse.
The same thing has the same name in all functions: ``window_size``, ``strides``, ``start_padding``,
``end_padding``, ``dilations`` of windows, ``axis`` or ``axes``, ``output_sizes`` and ``output_data_type`` of results.
By position may stand also what NumPy's users write there, where it can be taken for nothing else: the target of
``cast(x, "int32")``, the limits of ``clip(x, 0, 1)``, the counts of ``tile(x, [2, 2])``, the function of
``reduce(x, "SUM")``, and the sizes of what is made of nothing (``fill_value_constant([2, 3], ...)``).

Every function has two more parameters. ``device``: a ``Device``, by default the processor at feature level 6_4. A
lower level gives an older version of the operator where that says the same. ``out``: an array to write the output to,
of its type and sizes and with any strides, or a sequence with one for each output.

Where an operand is a graph tensor (``dml.Graph``), nothing runs: the operator becomes a node of the graph, and what the
function returns are graph tensors. Functions without operands take the graph in place of a device.

Every function raises InvalidDescriptorError, whose ``violations`` are all that is wrong with types, sizes and
parameters, and BindingError for an operand that is no array and an ``out`` that does not fit. Enumerations may be given
as members, names or DirectML's numbers; data types also as NumPy's. The examples assume ``import numpy as np`` and
``import opendml as dml``.
"""

"""The instructions of processors that code asks for by name, each with what it means (``loops/instructions.py``).

``machine_instructions(machine)`` are those that a machine has, which the nests of its kernels name.
"""

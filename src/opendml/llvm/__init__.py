"""LLVM: its text, its compilation to machine code in this process and in workers, and what is kept on disk."""

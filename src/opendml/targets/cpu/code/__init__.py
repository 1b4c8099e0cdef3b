"""From loop nests to target code: LLVM IR as text."""

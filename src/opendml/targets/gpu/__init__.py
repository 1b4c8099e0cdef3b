"""What all graphics processors share: plain schedules, a thread a point, and their text in LLVM IR."""

"""The native runtime: what the host is, how code is compiled, loaded and cached, and the threads that run it."""

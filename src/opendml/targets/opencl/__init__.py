"""OpenCL devices that take SPIR-V: graphics processors, and processors."""

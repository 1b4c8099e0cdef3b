"""Random descriptors, a file a family of operators; ``random_descriptors`` has them all."""

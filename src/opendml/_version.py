"""The version of the package, read by the build and shown by ``opendml --version``."""

__version__ = "0.1.0"

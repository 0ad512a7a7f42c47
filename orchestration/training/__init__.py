"""Old name of :mod:`hybrid_extensions.training`, which code of users imports."""

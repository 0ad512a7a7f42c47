"""Old name of :mod:`hybrid_extensions.cuts`, which code of users imports."""

"""Old name of :mod:`hybrid_extensions.servers`, which scripts of users import."""

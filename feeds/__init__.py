"""Old name of :mod:`hybrid_extensions.feeds`, which functions of users import."""

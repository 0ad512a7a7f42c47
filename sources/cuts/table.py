"""Old name of :mod:`hybrid_extensions.cuts.table`."""

from hybrid_extensions.cuts.table import Cut, TableVersion, read_cut

__all__ = ["Cut", "TableVersion", "read_cut"]

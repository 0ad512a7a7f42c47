"""Old name of :mod:`hybrid_extensions.cuts.members`."""

from hybrid_extensions.cuts.members import CutGroup, load_group

__all__ = ["CutGroup", "load_group"]

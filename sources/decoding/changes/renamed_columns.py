"""Renamed columns of a captured table, which keep their name of the ``schema`` in the target."""

from __future__ import annotations

NewNames = str | list[str]
"""A column's new name; a list, the newest last, if it was renamed several times."""


def all_names(names: NewNames) -> list[str]:
    """Return the declared new names of a column, one or several, as a list, the newest last."""
    return [names] if isinstance(names, str) else names

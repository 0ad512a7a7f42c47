"""Counts in words: a number and its noun, in the singular or the plural."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SHOWN = 5


class Noun(NamedTuple):
    """Noun of what is counted.

    Attributes:
        one: In the singular, such as ``record``.
        more: In the plural, such as ``records``.
    """

    one: str
    more: str

    def fitting(self, number: int) -> str:
        """Return the noun that fits a count: ``one`` for 1, else ``more``, also for 0."""
        return counted_as(number, self.one, self.more)


def first_few(texts: Sequence[str], between: str = ", ") -> str:
    """Return the first five texts as one, and how many more there are, as in ``… and 2 more``.

    Empty without texts.

    Args:
        texts: The texts, in the order in which they are shown.
        between: What separates them.
    """
    rest = len(texts) - _SHOWN
    return between.join(texts[:_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def counted(number: int, one: str, more: str = "") -> str:
    """Return a count with its noun for a message: ``1 file``, ``10,000 files``.

    Args:
        number: How many there are.
        one: Noun in the singular, with the words that change with it, such as ``row is``.
        more: Noun in the plural; empty if it is the singular with an ``s``.
    """
    return f"{number:,} {counted_as(number, one, more)}"


def counted_as(number: int, one: str, more: str = "") -> str:
    """Return the noun alone that fits a count: the singular for 1, else the plural, also for 0.

    Args:
        number: How many there are.
        one: Noun in the singular.
        more: Noun in the plural; empty if it is the singular with an ``s``.
    """
    return one if number == 1 else more or f"{one}s"

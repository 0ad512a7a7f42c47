"""Counts in words: a number and its noun, in the singular or the plural."""

from __future__ import annotations


def counted(number: int, one: str, more: str = "") -> str:
    """Return a count with its noun, the number in full: ``1 file``, ``10,000 files``.

    Args:
        number: How many there are.
        one: What a single one is called; with the words that change with it, such as ``row is``.
        more: The same for several; else with an ``s`` at its end.
    """
    return f"{number:,} {counted_as(number, one, more)}"


def counted_as(number: int, one: str, more: str = "") -> str:
    """Return the noun for a count, singular or plural, without the number; arguments as above."""
    return one if number == 1 else more or f"{one}s"

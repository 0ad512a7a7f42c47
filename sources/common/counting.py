"""Numbers of things in words, with the right form for one of them."""

from __future__ import annotations


def counted(number: int, one: str, more: str = "") -> str:
    """Return a number in full with what is counted: ``1 file``, ``10,000 files``.

    Args:
        number: How many there are.
        one: What a single one is called; with the words that change with it, such as ``row is``.
        more: The same for several; else with an ``s`` at its end.
    """
    return f"{number:,} {counted_as(number, one, more)}"


def counted_as(number: int, one: str, more: str = "") -> str:
    """Return what so many things are called, without the number; arguments as above."""
    return one if number == 1 else more or f"{one}s"

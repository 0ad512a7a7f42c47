"""Marks in a database's log: a position that each transaction is wholly before or after."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class Mark(NamedTuple):
    """Position in a database's log; every transaction lies wholly before or after it.

    Attributes:
        position: Text that sorts after the positions of all changes before the mark, and of no
            others.
        text: The position as the database writes it.
        through: Once a connector has confirmed this position (``Slot.confirmed``), all changes from
            before the mark are in the topics.
        at: Time by the database's clock; commits before it are before the mark.
    """

    position: str
    text: str
    through: int
    at: datetime


def lsn_text(lsn: int) -> str:
    """Return a position in PostgreSQL's log as its type ``pg_lsn`` shows it, such as ``0/16B3748``.

    Args:
        lsn: The position, in bytes.
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"

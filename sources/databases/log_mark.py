"""Position in a database's log that divides its transactions, for consistent cuts."""

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

"""Record of the kept deliveries of a feed: how far the table with them is complete."""

from __future__ import annotations

from typing import Literal

from hybrid_extensions.feeds.position import Position
from sources.common.state_document import Part, Record
from sources.storage.folder import Folder

_RECORD = "kept.json"
Kind = Literal["load", "changes"]


class PendingDelivery(Part):
    """A delivery that was announced to the table before the sink got it.

    Attributes:
        number: Number of the delivery, which is the transaction version of its commit.
        kind: ``load`` if it has all rows of a version, and keys that it lacks are gone from the
            sink; ``changes`` otherwise.
        start: Position of the sink before it; None if it had none.
        end: Position of the sink after it.
        begun_ms: Since when some of its rows may be in the sink, in ms since 1970.
        committed_ms: When the oldest commit of the target that it delivers was made, in ms since
            1970; None if that is not known, and for a load.
        stage: What the names of the files with its rows begin with.
        parts: Number of these files.
    """

    number: int
    kind: Kind
    start: Position | None
    end: Position
    begun_ms: int
    committed_ms: int | None = None
    stage: str
    parts: int


class KeptRecord(Record):
    """How far the table of a feed's deliveries is complete; written before and after each.

    Attributes:
        table: Folder of the table.
        complete: Position of the sink up to which all deliveries are in the table; None if none
            was kept.
        number: Number of the last delivery in the table.
        delivered_ms: Time of that delivery, in ms since 1970; 0 if there is none.
        pending: A delivery that may be in the sink and not in the table; None if there is none.
        cleaned: Day on which old deliveries were removed last, such as ``2024-01-31``.
    """

    table: str = ""
    complete: Position | None = None
    number: int = 0
    delivered_ms: int = 0
    pending: PendingDelivery | None = None
    cleaned: str = ""


def read_kept(folder: Folder) -> KeptRecord:
    """Return the record of a feed's state folder; an empty one if nothing was kept yet.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return folder.read(_RECORD, KeptRecord) or KeptRecord()


def write_kept(folder: Folder, record: KeptRecord) -> None:
    """Write the record of a feed's state folder, replacing the last one.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    folder.replace(_RECORD, record)

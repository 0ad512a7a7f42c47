"""Documents that feeds leave in the state folder."""

from __future__ import annotations

from hybrid_extensions.feeds.feed_record import Compared, FeedRecord, ServedLookups
from hybrid_extensions.feeds.kept.kept_record import KeptRecord, PendingDelivery
from hybrid_extensions.feeds.position import Position
from hybrid_extensions.feeds.sinks.python_function import Remembered
from sources.common.state_document import Record
from sources.errors import ErrorReport

_AT = 1_704_067_200_000  # 2024-01-01
_ERROR = ErrorReport(
    kind="RunError", message="It ended.", hint="Start it.", transient=True, fields={"topic": "t"}
)
_POSITION = Position(table="5e0c", number=7, commit="ab12", owner="g1-77aa", form="cd34")
KINDS: list[type[Record]] = [FeedRecord, KeptRecord, Position, Remembered]
SAMPLES: list[Record] = [
    FeedRecord(
        number=7,
        delivered_ms=_AT,
        loaded_ms=_AT,
        why_loaded="new",
        looked_ms=_AT,
        followed_until_ms=_AT,
        failure=_ERROR,
        compared=Compared(at_ms=_AT, number=7, rows=100, share=0.5, agrees=True),
        served=ServedLookups(at_ms=_AT, compared=100, different=3, p99_s=1.5, is_within=False),
    ),
    KeptRecord(
        table="/lake/kept",
        complete=_POSITION,
        number=3,
        delivered_ms=_AT,
        pending=PendingDelivery(
            number=4,
            kind="changes",
            start=_POSITION,
            end=_POSITION,
            begun_ms=_AT,
            committed_ms=_AT,
            stage="5e0c",
            parts=1,
        ),
        cleaned="2024-01-01",
    ),
    _POSITION,
    Remembered(delivered=_POSITION, pending=_POSITION),
]

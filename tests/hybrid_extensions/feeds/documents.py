"""Documents that feeds leave in the state folder."""

from __future__ import annotations

from hybrid_extensions.feeds.feed_record import Compared, FeedRecord
from hybrid_extensions.feeds.position import Position
from hybrid_extensions.feeds.sinks.python_function import Remembered
from sources.common.positions import Record
from sources.errors import ErrorReport

_AT = 1_704_067_200_000  # 2024-01-01
_ERROR = ErrorReport(
    kind="RunError", message="It ended.", hint="Start it.", transient=True, fields={"topic": "t"}
)
_POSITION = Position(table="5e0c", number=7, commit="ab12", owner="g1-77aa", form="cd34")
KINDS: list[type[Record]] = [FeedRecord, Position, Remembered]
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
    ),
    _POSITION,
    Remembered(delivered=_POSITION, pending=_POSITION),
]

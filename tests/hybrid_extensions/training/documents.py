"""Documents that training sets leave in the state folder."""

from __future__ import annotations

from hybrid_extensions.training.sets.set_record import ComputedFrom, RangeRecord, SetRecord
from sources.common.state_document import Record

_FROM = ComputedFrom(version=3, digest="5e0c")
KINDS: list[type[Record]] = [SetRecord]
SAMPLES: list[Record] = [
    SetRecord(
        table="77aa",
        ranges={"2024-01-01": RangeRecord(labels="2:41", rows=2, commit=1, tables={"own": _FROM})},
    )
]

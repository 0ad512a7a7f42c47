"""The kinds of documents that a change log keeps."""

from __future__ import annotations

from hybrid_extensions.change_log.writer import LogPosition
from sources.common.state_document import Record

KINDS: list[type[Record]] = [LogPosition]
SAMPLES: list[Record] = [
    LogPosition(after=7, partition={"server": "shop"}, start={"lsn": 25, "txId": 700})
]

"""Spark's progress reports of a query, each used once; Spark keeps the last hundred only."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

Use = Callable[[Sequence[dict[str, Any]]], None]
"""A function that takes progress reports, decoded from JSON."""


class ProgressReports:
    """Reader of one query's progress reports, each once; Spark keeps the last hundred."""

    def __init__(self) -> None:
        # Time and micro-batch of the newest report that was used.
        self._seen: tuple[str, int] | None = None

    def pass_on(self, running: StreamingQuery, after: int, use: Use) -> None:
        """Call a function with all progress reports since its last success, if there are any.

        If the function raises, the same reports are passed again at the next call. Reports of
        triggers that ran no micro-batch are left out.

        Args:
            running: The query, or one that has ended.
            after: Number of a micro-batch; it and those before it are left out.
            use: The function; it gets the newest report first.
        """
        jvm: Any = running._jsq
        latest = jvm.lastProgress()
        if latest is None:
            return
        at = (str(latest.timestamp()), int(latest.batchId()))
        if at == self._seen:
            return
        reports = []
        for each in reversed(jvm.recentProgress()):
            if int(each.batchId()) <= after:
                break
            reports.append(json.loads(each.json()))
        if with_batch := [each for each in reports if "addBatch" in each["durationMs"]]:
            use(with_batch)
        self._seen = at

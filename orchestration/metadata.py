"""What assets show of themselves in Dagster's UI; the only place that knows metadata's shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from sources.plan import Plan
from sources.positions import EndPosition, StartPosition, iso
from spark_jobs.heartbeat import Heartbeat

Metadata = dict[str, Any]


def plan(made: Plan) -> Metadata:
    """The plan: what will be read and where the topic is expected to start."""
    shown: Metadata = {
        "splits": sum(part.splits for part in made.files),
        "bytes": sum(part.bytes for part in made.files),
        "warnings": dg.MetadataValue.md("\n".join(f"- {text}" for text in made.warnings) or "none"),
        "bounded sources": _table(
            [
                {
                    "source": part.source,
                    "format": part.format,
                    "splits": part.splits,
                    "bytes": part.bytes,
                    "rows": "unknown" if part.rows is None else str(part.rows),
                    "from": iso(part.event_min_ms),
                    "to": iso(part.end.event_time_ms),
                    "complete through": iso(part.end.complete_through_ms),
                    "end known": part.end.evidence,
                }
                for part in made.files
            ]
        ),
        "dagster/column_schema": dg.TableSchema(
            [
                dg.TableColumn(field.name, str(kind))
                for field, kind in zip(made.columns, _type_names(made), strict=True)
            ]
        ),
    }
    rows = [part.rows for part in made.files if part.rows is not None]
    if len(rows) == len(made.files):
        shown["rows"] = sum(rows)
    if made.topic is not None:
        shown["topic"] = made.topic.topic
        shown["timestamp type"] = made.topic.timestamp_type
        kept = made.topic.retention_ms
        shown["retention"] = "for ever" if kept is None else f"{kept / 3_600_000:,.1f} h"
        shown["expected start"] = _starts(made.topic.expected_start)
    return shown


def end(position: EndPosition) -> Metadata:
    """The end position of a bounded source."""
    shown: Metadata = {
        "end": iso(position.event_time_ms),
        "end_ms": position.event_time_ms,
        "complete through": iso(position.complete_through_ms),
        "end known": position.evidence,
        "splits": position.splits,
    }
    if position.rows is not None:
        shown["dagster/row_count"] = position.rows
    return shown


def start(position: StartPosition) -> Metadata:
    """The start position of the topic, with the evidence for each partition."""
    shown: Metadata = {"topic": position.topic, "start offsets": _starts(position)}
    if position.time_ms is not None:
        shown["record time looked up"] = iso(position.time_ms)
    return shown


def live(beat: Heartbeat, log: Path, target: str) -> Metadata:
    """The unbounded run, as it was when its first batch was in."""
    shown: Metadata = {
        "driver pid": beat.pid,
        "batch": beat.batch_id if beat.batch_id is not None else "waiting for data",
        "log": dg.MetadataValue.path(str(log)),
        "dagster/uri": target,
    }
    if beat.offsets is not None:
        shown["read up to"] = dg.MetadataValue.json(
            {str(number): at for number, at in beat.offsets.items()}
        )
    if beat.ui_url is not None:
        shown["Spark UI"] = dg.MetadataValue.url(beat.ui_url)
    return shown


def _type_names(made: Plan) -> Sequence[str]:
    columns = made.files[0].columns if made.files else (made.topic.columns if made.topic else {})
    return list(columns.values())


def _starts(position: StartPosition) -> dg.TableMetadataValue:
    return _table(
        [
            {
                "partition": number,
                "log start": part.log_start,
                "start": part.start,
                "log end": part.log_end,
                "why": part.reason,
            }
            for number, part in sorted(position.partitions.items())
        ]
    )


def _table(rows: Sequence[Mapping[str, str | int]]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows])

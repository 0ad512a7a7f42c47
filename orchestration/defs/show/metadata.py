"""Metadata in Dagster: ledger tables, plotted figures, findings as checks; pending ones warn."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from orchestration.defs.keys import APPROVED
from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.display import readable_times, second
from orchestration.progress.in_words import complete_through
from orchestration.supervision.rules.verdict import Finding, Verdict
from sources.common.counting import counted
from sources.common.durations import duration
from sources.common.positions import EndPosition, Evidence, TopicPartition, nest
from sources.common.times import to_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount
from sources.hand_over_checks import Check
from sources.kafka.start.declared_start import GapError
from sources.ledger import Ledger, LedgerEntry, SeamCount
from sources.planning.approval import HOW_TO_APPROVE, Approval
from sources.planning.exports import ExportRecord
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.late_row_count import LateRows

Metadata = dict[str, Any]
_PLOTS = {
    "lag": "records waiting",
    "waiting_s": "waiting (s)",
    "processed_rows_per_s": "rows/s (last micro-batch)",
    "event_time_lag_s": "newest row's age (s)",
    "late_rows": "late rows",
    "bad_records": "bad records",
    "partition_drift_s": "partitions apart (s)",
    "held_offsets": "records held back",
}
"""The figures of a verdict that Dagster plots over time, and their titles there."""
_FOR_PROGRAMS = {"input_rows_per_s"}
"""Figures for programs, which people would take for another one: arrivals, not what was done."""


def export(made: ExportRecord) -> Metadata:
    """Return the metadata of a source that was exported: files, bytes, time, end position."""
    shown: Metadata = {
        "files": len(made.files),
        "bytes": sum(made.files.values()),
        "exported": second(made.taken_ms),
    }
    if made.end.complete_through is not None:
        shown["complete through"] = second(to_ms(made.end.complete_through))
    if made.end.sequence is not None:
        shown["sequence"] = made.end.sequence
    if made.end.offsets is not None:
        shown["ends before offset"] = table(
            [
                {"topic": at.topic, "partition": at.partition, "offset": offset}
                for at, offset in sorted(made.end.offsets.items())
            ]
        )
    return shown


def end(
    position: EndPosition, bad: BadRecordCount | None, late: LateRows | None = None
) -> Metadata:
    """Return the metadata of a bounded source's end position, its bad records and its late rows.

    Args:
        position: Where the source ended: event time, and offsets where history knows them.
        bad: Count of bad records; None if the source doesn't count them.
        late: Count of rows dropped behind the watermark; None if the query has none.
    """
    shown: Metadata = {
        "end": second(position.event_time_ms),
        "complete through": complete_through(position),
        "event times": position.event_times,
        "decided by": decided_by(position.evidence),
        "splits": position.splits,
    }
    if position.rows is not None:
        shown["dagster/row_count"] = position.rows
    if bad is not None:
        shown["bad records"] = bad.total
        shown["records outside of event-time bounds"] = bad.outside
        shown |= broken_rules(bad.broken)
    if late is not None:
        shown["late rows"] = late.dropped
        if late.unknown_batches:
            shown["micro-batches with unknown late rows"] = late.unknown_batches
    if position.sequence is not None:
        shown["sequence"] = position.sequence
    if position.snapshot is not None:
        shown["snapshot taken"] = second(position.snapshot.taken_ms)
        shown |= position.snapshot.summary()
    if position.offsets is not None:
        shown["offsets in history"] = table(
            [
                {
                    "topic": at.topic,
                    "partition": at.partition,
                    "up to": following - 1,
                    "holes": len(position.offsets.holes.get(at, [])),
                }
                for at, following in sorted(position.offsets.next.items())
            ]
        )
    return shown


def broken_rules(counts: Mapping[str, int]) -> Metadata:
    """Return the metadata of the records that each rule left out.

    Args:
        counts: Numbers of such records, by name of the rule.
    """
    return {f"records that break {name}": count for name, count in counts.items()}


def decided_by(evidence: Evidence) -> str:
    """Return as text what decided a position, such as ``event time`` or ``offsets``."""
    return "event time" if evidence == "timestamp" else evidence


def ledger(made: Ledger, count: SeamCount | None) -> Metadata:
    """Return the metadata of a hand-over's ledger: for each partition, its start and the reason.

    Args:
        made: The ledger.
        count: Rows in the seam (the offsets in which history and topic may overlap) and rows
            removed there as duplicates; None until the run has read past the seam.
    """
    # Three narrow tables: the UI cuts off what is wider than a page.
    shown: Metadata = {
        "decided by": decided_by(made.decided_by),
        "duplicates removed by": made.rule,
        "ledger": table([_start(entry) for entry in made.entries]),
        "log of the topic": table([_log(entry) for entry in made.entries]),
        "seam": table([_seam(entry, count) for entry in made.entries]),
    }
    if made.previous is not None:
        shown["history complete through"] = complete_through(made.previous)
    return shown


def removed(count: SeamCount | None) -> Metadata:
    """Return the metadata on how many rows of a seam were duplicates; empty until they are counted.

    Args:
        count: Rows in the seam (the offsets in which history and topic may overlap) and rows
            removed there as duplicates; None until they are counted.
    """
    if count is None:
        return {}
    rows, dropped = (sum(of.values()) for of in (count.rows, count.removed))
    return {"duplicates removed at the hand-over": f"{dropped:,} of {counted(rows, 'row')}"}


def _start(entry: LedgerEntry) -> dict[str, str | int]:
    return _place(entry) | {
        "start": entry.start,
        "why": readable_times(entry.why),
        "gap": entry.gap or "none",
    }


def _log(entry: LedgerEntry) -> dict[str, str | int]:
    return _place(entry) | {
        "log start": entry.log_start,
        "first record": "none yet" if entry.first_offset is None else entry.first_offset,
        "first timestamp": "" if entry.first_ms is None else second(entry.first_ms),
    }


def _seam(entry: LedgerEntry, count: SeamCount | None) -> dict[str, str | int]:
    at = TopicPartition(entry.topic, entry.partition)
    counts = {} if count is None else {"rows": count.rows, "removed": count.removed}
    return _place(entry) | {
        "end": entry.seam_end,
        "overlap (offsets)": entry.overlap,
        **{name: by.get(at, 0) for name, by in counts.items()},
    }


def _place(entry: LedgerEntry) -> dict[str, str | int]:
    return {"topic": entry.topic, "partition": entry.partition}


def check(found: Check) -> dg.AssetCheckResult:
    """Return a hand-over's check for Dagster; a failure that the pipeline accepts is a warning."""
    severity = dg.AssetCheckSeverity.WARN if found.accepted else dg.AssetCheckSeverity.ERROR
    return dg.AssetCheckResult(
        check_name=found.name,
        passed=found.passed,
        severity=severity,
        description=found.text,
        metadata=dict(found.numbers),
    )


def approval(loaded: LoadedPipeline, given: Approval | None) -> dg.AssetCheckResult:
    """Return the result of the check of a plan's approval: by whom and when, or how to approve it.

    Args:
        loaded: The pipeline.
        given: The approval; None if the plan is not approved, which warns.
    """
    text = f"Waiting for approval. {in_dagster(HOW_TO_APPROVE, loaded)}"
    if given is not None:
        text = f"Approved by {given.by} at {second(given.at_ms)}."
    return dg.AssetCheckResult(
        check_name=APPROVED,
        passed=given is not None,
        severity=dg.AssetCheckSeverity.WARN,
        description=text,
    )


def gaps(error: GapError, loaded: LoadedPipeline) -> dg.AssetCheckResult:
    """Return the failed check ``no_gap`` of a hand-over that is refused, with a row for each gap.

    A gap is a range of records that are in neither history nor Kafka's log.
    """
    rows: list[dict[str, str | int]] = [
        {
            "topic": gap.topic,
            "partition": gap.partition,
            "from": _known(gap.from_ms, gap.from_offset),
            "to": _known(gap.to_ms, gap.to_offset),
            "why": gap.why,
        }
        for gap in error.gaps
    ]
    return dg.AssetCheckResult(
        check_name="no_gap",
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=in_dagster(str(error), loaded),
        metadata={"gaps": table(rows)},
    )


def _known(time_ms: int | None, offset: int | None) -> str:
    parts = [
        "" if offset is None else f"offset {offset}",
        "" if time_ms is None else second(time_ms),
    ]
    return ", ".join(filter(None, parts))


def live(beat: Heartbeat, log: Path, target: str) -> Metadata:
    """Return the metadata of the unbounded run when its first micro-batch was committed.

    Args:
        beat: The run's heartbeat.
        log: The driver's log file.
        target: Path or URL of the target table.
    """
    shown: Metadata = {
        "driver pid": beat.pid,
        "batch": beat.batch_id if beat.batch_id is not None else "waiting for data",
        "log": dg.MetadataValue.path(str(log)),
        "dagster/uri": target,
    }
    if beat.offsets is not None:
        shown["read up to"] = dg.MetadataValue.json(nest(beat.offsets))
    if beat.splits_total is not None:
        shown["splits read"] = f"{beat.splits_done or 0:,} of {beat.splits_total:,}"
    if beat.bad_records:
        shown["bad records"] = beat.bad_records
    if beat.outside_records:
        shown["records outside of event-time bounds"] = beat.outside_records
    shown |= broken_rules(beat.broken_rules)
    if beat.late_rows is not None:
        shown["late rows"] = beat.late_rows
    if beat.ui_url is not None:
        shown["Spark UI"] = dg.MetadataValue.url(beat.ui_url)
    return shown


def transform(changed: str | None) -> Metadata:
    """Return the metadata with the warning about a transform that changed under the checkpoint.

    Args:
        changed: The warning; None if no transform changed, which gives no metadata.
    """
    return {} if changed is None else {"transform changed": changed}


def finding(found: Finding) -> dg.AssetCheckResult:
    """Return an expectation of the live run as a check result; one that is pending is a warning."""
    return dg.AssetCheckResult(
        check_name=found.name,
        passed=found.passed,
        severity=_severity(found),
        description=found.text,
        metadata=_measured(found),
    )


def evaluation(key: dg.AssetKey, found: Finding) -> dg.AssetCheckEvaluation:
    """Return an expectation of the live run as a check evaluation that a sensor reports.

    Args:
        key: The asset of the live run.
        found: The expectation, and whether it holds; one that is pending only warns.
    """
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=found.name,
        passed=found.passed,
        severity=_severity(found),
        description=found.text,
        metadata=_measured(found),
    )


def _measured(found: Finding) -> Metadata:
    """Return value and limit of an expectation as plain numbers, which Dagster plots.

    Lengths of time are in whole seconds, and in words beside them.
    """
    value, limit = found.value, found.limit
    shown: Metadata = {"value": value, "limit": limit, "unit": found.unit or None}
    if found.unit == "s":
        whole = {"value": value, "limit": limit}
        shown |= {name: None if each is None else round(each) for name, each in whole.items()}
        shown |= {
            f"{name} in words": None if each is None else duration(each)
            for name, each in whole.items()
        }
    return {name: each for name, each in shown.items() if each is not None}


def _severity(found: Finding) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if found.is_pending else dg.AssetCheckSeverity.ERROR


def observation(verdict: Verdict) -> Metadata:
    """Return a verdict as the metadata of an observation of the live run's asset.

    Dagster plots each plain number, so only those of :data:`_PLOTS` are; others are in ``details``.
    """
    numbers = verdict.numbers
    shown_elsewhere = _PLOTS.keys() | _FOR_PROGRAMS | {"watermark_ms"}
    age_s = numbers.get("event_time_lag_s")
    details = {name: number for name, number in numbers.items() if name not in shown_elsewhere}
    shown: Metadata = {
        "health": verdict.health,
        "reason": verdict.reason,
        **{title: round(numbers[name], 1) for name, title in _PLOTS.items() if name in numbers},
        **({"newest row's age": duration(age_s)} if age_s is not None else {}),
        "details": dg.MetadataValue.json({"red": verdict.is_red, **details}),
    }
    if (watermark := numbers.get("watermark_ms")) is not None:
        shown["watermark"] = second(int(watermark))
    if verdict.error is not None:
        shown["last error"] = verdict.error
    return shown


def picture(name: str, png: bytes) -> dg.MarkdownMetadataValue:
    """Return a PNG as Markdown metadata, with a name as its alternative text; Dagster shows it."""
    return dg.MetadataValue.md(f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})")


def table(rows: Sequence[Mapping[str, str | int]]) -> dg.TableMetadataValue:
    """Return rows, which all have the same columns, as a table in Dagster's metadata."""
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows])

"""What assets show of themselves in Dagster's UI; the only place that knows metadata's shapes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from orchestration.audit.compare_generations import GenerationComparison
from orchestration.generations.ranges import RangeLook, RangeResult
from orchestration.snapshots import TakenSnapshot
from orchestration.supervision.health import Finding, Verdict
from sources.common.positions import EndPosition, TopicPartition, iso, nest
from sources.config.bad_records import BadRecordCount
from sources.hand_over_checks import Check
from sources.kafka.start_offsets import GapError
from sources.ledger import Ledger, LedgerEntry, SeamCount
from sources.planning.approval import Approval, how_to_approve
from spark_jobs.run_state.heartbeat import Heartbeat

Metadata = dict[str, Any]


def snapshots(taken: Sequence[TakenSnapshot]) -> Metadata:
    """Snapshots of tables that are there now."""
    return {
        "dagster/row_count": sum(each.document["rows"] for each in taken),
        "snapshots": table(
            [
                {
                    "table": each.document["table"],
                    "rows": each.document["rows"],
                    "chunks": each.document["chunks"],
                    "taken": iso(each.document["taken_ms"]),
                    "LSN": each.document["lsn"],
                    "transactions in flight": len(each.document["in_progress"]),
                }
                for each in taken
            ]
        ),
    }


def end(position: EndPosition, bad: BadRecordCount | None) -> Metadata:
    """The end position of a bounded source, and how many bad records it had."""
    shown: Metadata = {
        "end": iso(position.event_time_ms),
        "end_ms": position.event_time_ms,
        "complete through": iso(position.complete_through_ms),
        "event times": position.event_times,
        "evidence": position.evidence,
        "splits": position.splits,
    }
    if position.rows is not None:
        shown["dagster/row_count"] = position.rows
    if bad is not None:
        shown["bad records"] = bad.total
    if position.sequence is not None:
        shown["sequence"] = position.sequence
    if position.snapshot is not None:
        shown["snapshot taken"] = iso(position.snapshot.taken_ms)
        shown["transactions in flight"] = len(position.snapshot.in_progress)
    if position.offsets is not None:
        shown["offsets held"] = table(
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


def ledger(made: Ledger, count: SeamCount | None) -> Metadata:
    """The ledger of a hand-over, one row a partition."""
    shown: Metadata = {
        "evidence": made.decided_by,
        "rows in both": made.rule,
        "ledger": table([_entry(entry, count) for entry in made.entries]),
    }
    if made.previous is not None:
        shown["history complete through"] = iso(made.previous.complete_through_ms)
    return shown


def _entry(entry: LedgerEntry, count: SeamCount | None) -> dict[str, str | int]:
    at = TopicPartition(entry.topic, entry.partition)
    counts = {} if count is None else {"rows": count.rows, "removed": count.removed}
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "start": entry.start,
        "why": entry.why,
        "log start": entry.log_start,
        "first record": "none yet" if entry.first_offset is None else entry.first_offset,
        "its time": "" if entry.first_ms is None else iso(entry.first_ms),
        "seam end": entry.seam_end,
        "overlap (offsets)": entry.overlap,
        "gap": entry.gap or "none",
        **{f"{name} in the seam": by.get(at, 0) for name, by in counts.items()},
    }


def check(found: Check) -> dg.AssetCheckResult:
    """One check of a hand-over; one that the pipeline accepts does not hold up the launch."""
    severity = dg.AssetCheckSeverity.WARN if found.accepted else dg.AssetCheckSeverity.ERROR
    return dg.AssetCheckResult(
        check_name=found.name,
        passed=found.passed,
        severity=severity,
        description=found.text,
        metadata=dict(found.numbers),
    )


def approval(name: str, given: Approval | None) -> dg.AssetCheckResult:
    """Whether a plan is approved, by whom; if not, what to do."""
    text = f"The plan is not approved yet. {how_to_approve(name)}"
    if given is not None:
        text = f"Approved by {given.by} at {iso(given.at_ms)}."
    return dg.AssetCheckResult(
        passed=given is not None,
        severity=dg.AssetCheckSeverity.ERROR,
        description=text,
    )


def gaps(error: GapError) -> dg.AssetCheckResult:
    """The check that a refused hand-over fails."""
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
        description=str(error),
        metadata={"gaps": table(rows)},
    )


def _known(time_ms: int | None, offset: int | None) -> str:
    parts = ["" if offset is None else f"offset {offset}", "" if time_ms is None else iso(time_ms)]
    return ", ".join(filter(None, parts))


def live(beat: Heartbeat, log: Path, target: str) -> Metadata:
    """The unbounded run, as it was when its first batch was in."""
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
    if beat.ui_url is not None:
        shown["Spark UI"] = dg.MetadataValue.url(beat.ui_url)
    return shown


def transform(changed: str | None) -> Metadata:
    """What is told of a transform that changed under the checkpoint."""
    return {} if changed is None else {"transform changed": changed}


def finding(found: Finding) -> dg.AssetCheckResult:
    """One thing that is expected of the live run; a launch that comes up is no error yet."""
    return dg.AssetCheckResult(
        check_name=found.name,
        passed=found.passed,
        severity=_severity(found),
        description=found.text,
    )


def evaluation(key: dg.AssetKey, found: Finding) -> dg.AssetCheckEvaluation:
    """The same as a sensor reports it."""
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=found.name,
        passed=found.passed,
        severity=_severity(found),
        description=found.text,
        metadata={},
    )


def _severity(found: Finding) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if found.is_pending else dg.AssetCheckSeverity.ERROR


def observation(verdict: Verdict) -> Metadata:
    """How the live run does; numbers as they are, so that they are plotted."""
    shown: Metadata = {
        "health": verdict.health,
        "reason": verdict.reason,
        "red": int(verdict.is_red),
        **verdict.numbers,
    }
    if (watermark := verdict.numbers.get("watermark_ms")) is not None:
        shown["watermark"] = iso(int(watermark))
    if verdict.error is not None:
        shown["last error"] = verdict.error
    return shown


def comparison(found: GenerationComparison) -> Metadata:
    """Two generations beside each other."""
    examples = [
        {
            "what": kind,
            "key": str(each.key),
            "column": each.column or "",
            found.serving: str(each.expected),
            found.candidate: str(each.found),
        }
        for kind, rows in found.examples.items()
        for each in rows
    ]
    return {
        **{f"rows of {name}": rows for name, rows in found.rows.items()},
        "gone": found.gone,
        "added": found.added,
        "changed": found.changed,
        "columns gone": ", ".join(found.columns_gone) or "none",
        "columns added": ", ".join(found.columns_added) or "none",
        **({"examples": table(examples)} if examples else {}),
    }


def picture(name: str, png: bytes) -> dg.MarkdownMetadataValue:
    """A picture that the UI shows where other values are text."""
    return dg.MetadataValue.md(f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})")


def looked(found: RangeLook) -> Metadata:
    """What making a range of the target anew would come to."""
    return {**_range(found), "splits": found.splits, "bytes": found.bytes}


def replaced(found: RangeResult) -> Metadata:
    """A range of the target that was made anew."""
    return {
        **_range(found),
        "dagster/row_count": found.replaced.written,
        "rows replaced": found.replaced.removed,
        "live rows that stay": found.replaced.kept_live,
    }


def _range(found: RangeLook | RangeResult) -> Metadata:
    return {
        "generation": found.generation,
        "since": dg.MetadataValue.timestamp(found.since),
        "until": dg.MetadataValue.timestamp(found.until),
    }


def filled_by_history(generation: str) -> Metadata:
    """A range of the target that came with a generation's history."""
    return {"generation": generation, "by": "history"}


def table(rows: Sequence[Mapping[str, str | int]]) -> dg.TableMetadataValue:
    """Rows with the same columns."""
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows])

"""The last audit of a generation, kept with its state: counts and recounts, without any row."""

from __future__ import annotations

from typing import Literal

from orchestration.audit.report import AuditReport, BadLine, LedgerLine
from sources.common.positions import Record, now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.state.generation import Generation

_NAME = "audit.json"


class KeptAudit(Record):
    """Result of an audit; examples of rows are left out, since readers may not see rows.

    Attributes:
        at_ms: When it was made, in ms since 1970.
        seconds: How long it took.
        outcome: ``passed``, ``failed`` or ``unknown``.
        input_rows: Rows of raw input, by source.
        expected, found, missing_rows, duplicated, different, unexpected, ambiguous: Numbers of
            rows, as in :class:`~orchestration.audit.report.AuditReport`.
        ledger: The recount of each hand-over.
        bad_records: The recount of bad records.
        unchecked: What could not be checked; sentences.
        notes: What qualifies the numbers; sentences.
    """

    at_ms: int
    seconds: float
    outcome: Literal["passed", "failed", "unknown"]
    input_rows: dict[str, int]
    expected: int
    found: int
    missing_rows: int
    duplicated: int
    different: int
    unexpected: int
    ambiguous: int
    ledger: list[LedgerLine]
    bad_records: list[BadLine]
    unchecked: list[str]
    notes: list[str]

    @classmethod
    def of(cls, report: AuditReport, at_ms: int) -> KeptAudit:
        """Return what is kept of an audit.

        Args:
            report: The audit's report.
            at_ms: When it was made, in ms since 1970.
        """
        return cls(
            at_ms=at_ms,
            seconds=report.seconds,
            outcome=report.outcome,
            input_rows=report.input_rows.sources,
            expected=report.expected,
            found=report.found,
            missing_rows=report.missing,
            duplicated=report.duplicated,
            different=report.different,
            unexpected=report.unexpected,
            ambiguous=report.ambiguous,
            ledger=report.ledger,
            bad_records=report.bad_records,
            unchecked=report.unchecked,
            notes=report.notes,
        )


def keep_audit(loaded: LoadedPipeline, report: AuditReport) -> KeptAudit:
    """Keep an audit in the state of its generation, in place of the one before.

    Args:
        loaded: The pipeline.
        report: The audit's report.

    Returns:
        What is kept. If the state can't be written, as by somebody who may only read it, a note
        says so: the audit may have taken an hour, and is worth showing nevertheless.
    """
    made = KeptAudit.of(report, now_ms())
    try:
        if (generation := loaded.open_generation(create=False)) is not None:
            generation.replace(_NAME, made)
    except HybridError as error:
        note = f"This audit is not kept: {error}"
        return made.model_copy(update={"notes": [*made.notes, note]})
    return made


def read_audit(generation: Generation) -> KeptAudit | None:
    """Read the last audit that was kept of a generation; None if there is none.

    Raises:
        StateError: It is damaged, or of another version.
    """
    return generation.read(_NAME, KeptAudit)

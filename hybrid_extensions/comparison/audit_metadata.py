"""Metadata of an audit in Dagster: result, counts of rows and notes, by label."""

from __future__ import annotations

from orchestration.comparison.kept_audit import KeptAudit
from orchestration.comparison.report import in_words
from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.defs.show.metadata import Metadata, table
from sources.config.loader import LoadedPipeline


def audited(kept: KeptAudit, loaded: LoadedPipeline) -> Metadata:
    """Return the metadata of an audit of a pipeline: result, row counts, and notes.

    Without the label `notes` if there are none.
    """
    notes = [{"note": in_dagster(note, loaded)} for note in kept.remarks]
    return {
        "audit": in_words(kept.outcome, kept.expected),
        **audit_counts(kept),
        **({"notes": table(notes)} if notes else {}),
    }


def audit_counts(kept: KeptAudit) -> Metadata:
    """Return the row counts of an audit as metadata, by label."""
    return {
        "rows expected": kept.expected,
        "rows found": kept.found,
        "missing": kept.missing_rows,
        "duplicated": kept.duplicated,
        "different": kept.different,
        "unexpected": kept.unexpected,
        "ambiguous keys": kept.ambiguous,
    }

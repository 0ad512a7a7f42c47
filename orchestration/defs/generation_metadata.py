"""Metadata of generations and recomputed ranges in Dagster's UI."""

from __future__ import annotations

import dagster as dg

from orchestration.audit.compare_generations import GenerationComparison
from orchestration.defs.metadata import Metadata, table
from orchestration.generations.ranges import RangeLook, RangeResult


def comparison(found: GenerationComparison) -> Metadata:
    """Return the metadata of a comparison of two generations: counts, columns and examples."""
    examples = [
        {
            "difference": kind,
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
        "missing": found.missing,
        "added": found.added,
        "changed": found.changed,
        "columns missing": ", ".join(found.columns_missing) or "none",
        "columns added": ", ".join(found.columns_added) or "none",
        **({"examples": table(examples)} if examples else {}),
    }


def looked(found: RangeLook) -> Metadata:
    """Return the metadata of a dry run: splits and bytes that recomputing a range would read."""
    return {**_range(found), "splits": found.splits, "bytes": found.bytes}


def replaced(found: RangeResult) -> Metadata:
    """Return the metadata of a range that was recomputed: rows written, replaced and kept."""
    return {
        **_range(found),
        "dagster/row_count": found.replaced.written,
        "rows replaced": found.replaced.removed,
        "live rows kept": found.replaced.kept_live,
    }


def _range(found: RangeLook | RangeResult) -> Metadata:
    return {
        "generation": found.generation,
        "since": dg.MetadataValue.timestamp(found.since),
        "until": dg.MetadataValue.timestamp(found.until),
    }


def filled_by_history(generation: str) -> Metadata:
    """Return the metadata of a range of the target that a generation's history filled."""
    return {"generation": generation, "filled by": "history"}

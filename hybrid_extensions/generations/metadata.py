"""Metadata of a comparison of two generations in Dagster's UI, with the next step."""

from __future__ import annotations

from collections.abc import Mapping

from hybrid_extensions.generations.comparison.compare_generations import GenerationComparison
from orchestration.comparison.report import example_text
from orchestration.defs.show.metadata import Metadata, table

NEXT = "next"
"""Metadata entry of a comparison with the next step, which holds as long as its candidate waits."""


def comparison(found: GenerationComparison) -> Metadata:
    """Return a comparison as metadata: summary, counts, examples, and what to do next."""
    examples = [
        {
            "difference": kind,
            "key": each.key_text,
            "column": each.column or "",
            found.serving: example_text(each.expected),
            found.candidate: example_text(each.found),
        }
        for kind, rows in found.examples.items()
        for each in rows
    ]
    columns: list[Mapping[str, str | int]] = [
        {"column": each.column, "changed rows": each.changed, "values": each.moved}
        for each in found.columns
    ]
    misfit = {} if found.audit_misfit is None else {"audit of the candidate": found.audit_misfit}
    later = {} if found.not_ready is None else {"compare again later": found.not_ready}
    return {
        "comparison": found.text,
        **later,
        **found.numbers,
        **({"columns": table(columns)} if columns else {}),
        **misfit,
        **({"examples": table(examples)} if examples else {}),
        NEXT: next_step(found),
    }


def next_step(found: GenerationComparison) -> str:
    """Return a sentence with the next step after a comparison: the job, and its actions."""
    begin = "To let" if found.not_ready is None else "Once it is ready, to let"
    return (
        f"{begin} readers see {found.candidate}, launch the job `{found.pipeline}_generation` with "
        f"the action PROMOTE; to delete {found.candidate}, with DISCARD."
    )

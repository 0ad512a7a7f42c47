"""Metadata of generations in Dagster's UI, and when the check ``same_rows`` passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from hybrid_extensions.generations.comparison.compare_generations import GenerationComparison
from orchestration.comparison.report import example_text
from orchestration.defs.show.metadata import Metadata, table
from orchestration.display import moment
from sources.common.times import now_ms

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


def compared(found: GenerationComparison, changed: Sequence[str]) -> dg.AssetCheckResult:
    """Return a comparison as the result of the check ``same_rows``; it never errs, but warns.

    It passes if a promotion takes nothing from readers. Values that differ pass, too, if the
    definition was changed, as that is what the change is for; missing rows never do.

    Args:
        found: The comparison.
        changed: Files of the definition that differ from those of the serving generation; empty if
            none does.
    """
    is_meant = bool(changed) and not found.missing
    why = f"; {', '.join(changed)} changed since {found.serving}" if changed else ""
    return dg.AssetCheckResult(
        passed=found.passed or is_meant,
        severity=dg.AssetCheckSeverity.WARN,
        # It is shown for as long as the candidate waits.
        description=f"{found.text}{why}; compared {moment(now_ms())} UTC",
        metadata=comparison(found),
    )

"""Check `same_rows`: when a candidate passes, compared with the rows that readers see."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from hybrid_extensions.comparison.last_evaluation import last_evaluation
from hybrid_extensions.generations import metadata as generation_metadata
from hybrid_extensions.generations.comparison.compare_generations import (
    GenerationComparison,
    compare_generations,
    pair,
)
from hybrid_extensions.generations.declare import COMPARED
from orchestration.defs.keys import generation_name, table_key
from orchestration.defs.show.dagster_failures import failures
from orchestration.display import moment
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.kept_definitions import changed_since
from sources.serving import candidate_name, read_serving

_NOTHING = "Nothing was compared: "
_SETTLED = "No candidate waits any more. The last comparison: "


def same_rows_check(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the check, which the job for generations evaluates and people can run by hand.

    Without a candidate it tells the last comparison again. If there was none, it is skipped, which
    says neither that rows are the same nor that they are not.
    """
    key, job = table_key(loaded), generation_name(loaded)
    spec = dg.AssetCheckSpec(
        COMPARED,
        asset=key,
        description=(
            "The candidate has all rows that readers see, with the same values unless the "
            "pipeline's file or its code was changed since. Evaluated by "
            f"COMPARE of the job `{job}`, or by hand: it reads both tables. Without a candidate "
            "the last comparison is told again, or it is skipped, as there is nothing to compare: "
            "RERUN or NEW of that job begin one."
        ),
    )

    # Only of one that may be left out of a run Dagster accepts that it is not evaluated.
    @dg.multi_asset_check(
        name=f"{key.to_python_identifier()}_{COMPARED}", specs=[spec], can_subset=True
    )
    def same_rows(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            if candidate_name(fresh) is None:
                last = last_evaluation(context.instance, dg.AssetCheckKey(key, COMPARED))
                if last is not None and (settled := _settled(last.found)) is not None:
                    text, shown = settled
                    yield dg.AssetCheckResult(passed=True, description=text, metadata=shown)
                    return
                how = f"The job `{job}` begins one with RERUN or NEW."
                context.log.info(f"{_NOTHING}there is no candidate. {how}")
                return
            found = compare_generations(fresh)
            yield compared(found, changed_since(fresh, found.serving))

    return same_rows


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
        metadata=generation_metadata.comparison(found),
    )


def comparison_again(
    instance: dg.DagsterInstance, loaded: LoadedPipeline
) -> dg.AssetCheckEvaluation | None:
    """Return the evaluation of ``same_rows`` to report after a materialization of the table.

    Dagster shows a check as not evaluated after each materialization.

    Args:
        instance: Dagster's instance, which keeps the last evaluation.
        loaded: The pipeline.

    Returns:
        The last comparison, which says when it was made, as long as its candidate waits; afterwards
        it passes once, as settled. None if nothing was ever compared, or it is settled already: the
        check is then not evaluated, as nothing is compared.

    Raises:
        InputError: The state's store refuses.
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    key = dg.AssetCheckKey(table_key(loaded), COMPARED)
    if (kept := last_evaluation(instance, key)) is None:
        return None
    found = kept.found
    before, candidate = found.description or "", candidate_name(loaded)
    if candidate is None:
        if before.startswith(_SETTLED) or (settled := _settled(found)) is None:
            return None
        return _compared(loaded, settled[0], passed=True, metadata=settled[1])
    # After a candidate was discarded, another one may have its name.
    is_newer = kept.at_ms >= loaded.require_generation().info.created_ms
    if is_newer and before.startswith(f"{pair(candidate, read_serving(loaded).generation)}:"):
        return _compared(loaded, before, passed=found.passed, metadata=found.metadata)
    text = f"{_NOTHING}{candidate} was not compared yet."
    return None if before == text else _compared(loaded, text, passed=False)


def _settled(last: dg.AssetCheckEvaluation) -> tuple[str, Mapping[str, Any]] | None:
    """Return text and metadata of a comparison whose candidate is gone; None if it compared none.

    Without its next step, which is done, or can't be done any more.
    """
    before = last.description or ""
    if before.startswith(_NOTHING):
        return None
    left = {name: each for name, each in last.metadata.items() if name != generation_metadata.NEXT}
    return f"{_SETTLED}{before.removeprefix(_SETTLED)}", left


def _compared(
    loaded: LoadedPipeline, text: str, *, passed: bool, metadata: Mapping[str, Any] | None = None
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=table_key(loaded),
        check_name=COMPARED,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=text,
        metadata=metadata or {},
    )

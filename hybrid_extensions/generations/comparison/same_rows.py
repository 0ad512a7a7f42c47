"""Check `same_rows`: the candidate's rows compared with those that readers see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.comparison.last_evaluation import last_evaluation
from hybrid_extensions.generations import metadata as generation_metadata
from hybrid_extensions.generations.comparison.compare_generations import compare_generations, pair
from hybrid_extensions.generations.declare import COMPARED
from orchestration.defs.keys import generation_name, table_key
from orchestration.defs.show.dagster_failures import failures
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.kept_definitions import changed_since
from sources.serving import candidate_name, read_serving

_NOTHING = "Nothing was compared: "
_NO_CANDIDATE = f"{_NOTHING}there is no candidate."
_SETTLED = "No candidate waits any more. The last comparison: "


def same_rows_check(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the check, which the job for generations evaluates and people can run by hand."""

    @dg.asset_check(
        name=COMPARED,
        asset=table_key(loaded),
        description=(
            "The candidate has all rows that readers see, with the same values unless the "
            "pipeline's file or its code was changed since. Evaluated by "
            f"COMPARE of the job `{generation_name(loaded)}`, or by hand: it reads both tables."
        ),
    )
    def same_rows() -> dg.AssetCheckResult:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            if candidate_name(fresh) is None:
                warn = dg.AssetCheckSeverity.WARN
                return dg.AssetCheckResult(passed=False, severity=warn, description=_NO_CANDIDATE)
            found = compare_generations(fresh)
            return generation_metadata.compared(found, changed_since(fresh, found.serving))

    return same_rows


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
        if before.startswith((_NOTHING, _SETTLED)):
            return None
        # The next step of then is done, or can't be done any more.
        left = {
            name: each for name, each in found.metadata.items() if name != generation_metadata.NEXT
        }
        return _compared(loaded, f"{_SETTLED}{before}", passed=True, metadata=left)
    # After a candidate was discarded, another one may have its name.
    is_newer = kept.at_ms >= loaded.require_generation().info.created_ms
    if is_newer and before.startswith(f"{pair(candidate, read_serving(loaded).generation)}:"):
        return _compared(loaded, before, passed=found.passed, metadata=found.metadata)
    text = f"{_NOTHING}{candidate} was not compared yet."
    return None if before == text else _compared(loaded, text, passed=False)


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

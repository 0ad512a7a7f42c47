"""Training sets in Dagster: an asset of ranges of label times for each, with its checks."""

from collections.abc import Iterator
from pathlib import Path
from warnings import catch_warnings, simplefilter

import dagster as dg

from hybrid_extensions.training.sets.compute import compute
from hybrid_extensions.training.sets.declare import DeclaredSet, Features, TrainingSection
from hybrid_extensions.training.sets.quality import Quality, quality
from hybrid_extensions.training.sets.range_states import set_of
from orchestration.defs.keys import table_key
from orchestration.defs.show.dagster_failures import failures, load_again
from orchestration.defs.time_partitions import time_partitions
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline, load_pipeline

ROWS, NULLS, FUTURE = "rows_are_labels", "nulls", "nothing_from_the_future"
"""Names of the checks of a training set."""
_CHECKS = {
    ROWS: "The computed ranges have a row for each label.",
    NULLS: "No column of them has more nulls than `max_nulls` allows.",
    FUTURE: "No row has a value that became known after its time.",
}


def set_key(loaded: LoadedPipeline, name: str) -> dg.AssetKey:
    """Return the key of a training set's asset: ``[pipeline, "training", set]``."""
    return dg.AssetKey([loaded.pipeline.name, "training", name])


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the assets of a pipeline's training sets, with their checks; nothing without sets.

    Materializing partitions computes those that are not up to date.

    Args:
        loaded: The pipeline.
    """
    sets = loaded.section(TrainingSection).training_sets
    return dg.Definitions(assets=[_asset(loaded, each) for each in sets])


def _asset(loaded: LoadedPipeline, declared: DeclaredSet) -> dg.AssetsDefinition:
    key, labels = set_key(loaded, declared.name), declared.labels
    with catch_warnings():
        # That one run does many partitions is beta, which Dagster would say at each load.
        simplefilter("ignore", dg.BetaWarning)
        as_asset = dg.asset(
            key=key,
            deps=list(dict.fromkeys(_upstream(loaded, each) for each in declared.tables)),
            # Not in the chain's group: the chain's job materializes all of that.
            group_name=f"{loaded.pipeline.name}_training",
            kinds={"duckdb", "deltalake"},
            partitions_def=time_partitions(labels.by, labels.start, labels.end),
            backfill_policy=dg.BackfillPolicy.single_run(),
            description=(
                "Labels with the values that were known at their times. Materializing partitions "
                "computes those that are not up to date, and only what they lack."
            ),
            check_specs=[
                dg.AssetCheckSpec(name, asset=key, description=text)
                for name, text in _CHECKS.items()
            ],
        )

    @as_asset
    def training_set(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        with failures(loaded):
            fresh = load_again(loaded.path)
            now = set_of(fresh, declared.name)
            done = compute(fresh, now, context.partition_keys, context.log.info)
            context.log.info(done.text)
            found = None if done.version is None else quality(fresh, now, context.partition_keys)
        metadata: dict[str, int | str] = {
            "computed ranges": len(done.ranges),
            "computed labels": done.rows,
            "ranges that were up to date": done.current,
            "feature tables read": ", ".join(done.tables) or "none",
            **({} if done.version is None else {"version": done.version}),
            **({} if found is None else {"dagster/row_count": found.rows}),
        }
        checks = list(_results(key, now, found or Quality(0, 0)))
        yield dg.MaterializeResult(metadata=metadata, check_results=checks)

    return training_set


def _upstream(loaded: LoadedPipeline, features: Features) -> dg.AssetKey:
    """Return the asset of a feature table: of its pipeline, or named as its folder."""
    if features.path is not None:
        return dg.AssetKey([Path(features.path).name])
    return table_key(
        loaded if features.pipeline is None else load_pipeline(Path(features.pipeline))
    )


def _results(
    key: dg.AssetKey, declared: DeclaredSet, found: Quality
) -> Iterator[dg.AssetCheckResult]:
    late = ", ".join(
        f"{counted(n, 'row')} of `{name}`" for name, n in found.from_the_future.items()
    )
    shares = {name: round(each, 6) for name, each in found.nulls.items()}
    above = [f"`{name}`" for name, each in found.nulls.items() if each > declared.max_nulls]
    too_many = f"Above {declared.max_nulls:.1%}: {', '.join(above)}."
    yield dg.AssetCheckResult(
        check_name=ROWS,
        asset_key=key,
        passed=found.rows == found.labels,
        description=f"{counted(found.rows, 'row')} for {counted(found.labels, 'label')}.",
        metadata={"rows": found.rows, "labels": found.labels},
    )
    yield dg.AssetCheckResult(
        check_name=NULLS,
        asset_key=key,
        passed=not above,
        description=too_many if above else "No column is above its limit.",
        metadata={f"share of nulls, {name}": each for name, each in shares.items()},
    )
    yield dg.AssetCheckResult(
        check_name=FUTURE,
        asset_key=key,
        passed=not late,
        description=f"Known after their time: {late}." if late else "Nothing is.",
    )

"""Consistent cuts in Dagster: their table as an asset, and the sensor that publishes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg
from pydantic import BaseModel

from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.cuts.attempt import GivenUp, UnderWay
from hybrid_extensions.cuts.declare import CutsSection
from hybrid_extensions.cuts.members import CutGroup, load_group
from hybrid_extensions.cuts.publisher import advance
from hybrid_extensions.cuts.table import Cut
from orchestration.defs.keys import table_group, table_key
from orchestration.defs.show import metadata
from orchestration.defs.show.dagster_failures import failures
from orchestration.display import second
from sources.common.times import now_ms, to_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError, leaving

LOOK_S = 10
"""Seconds between two looks; a cut takes two of them at least."""


class Cursor(BaseModel):
    """State of the sensor between ticks, which Dagster stores.

    Attributes:
        attempt: The attempt that is under way; None if none is.
        begun_ms: When it began, in ms since 1970.
        next_ms: Time in ms since 1970 before which no other one begins.
        last: The last cut, as text; or that there is none.
    """

    attempt: UnderWay | None = None
    begun_ms: int = 0
    next_ms: int = 0
    last: str = "none was published yet"


def cuts_key(name: str) -> dg.AssetKey:
    """Return the key of the asset of the cuts' table: ``[name, "cuts"]``."""
    return dg.AssetKey([name, "cuts"])


def definitions(template: Template, pipelines: Sequence[LoadedPipeline]) -> dg.Definitions:
    """Return asset and sensor of the cuts that a file with `tables` declares; empty if it has none.

    Args:
        template: The file.
        pipelines: The pipelines of its tables.
    """
    name = template.declared.name
    if not any(each.section(CutsSection).cuts for each in pipelines):
        return dg.Definitions()
    return dg.Definitions(
        assets=[cuts_asset(name, pipelines)],
        sensors=[cuts_sensor(name, lambda: load_group([template.path]))],
    )


def cuts_asset(name: str, pipelines: Sequence[LoadedPipeline]) -> dg.AssetSpec:
    """Return the asset of the table of the cuts, which the sensor materializes.

    Args:
        name: Name of the file with `tables`, as it declares it.
        pipelines: The pipelines whose tables belong to the cuts, at least one.
    """
    return dg.AssetSpec(
        cuts_key(name),
        deps=[table_key(each) for each in pipelines],
        group_name=table_group(pipelines[0]),
        kinds={"deltalake"},
        description=(
            "Consistent cuts: versions of all tables that together are the database as of one "
            f"commit. The sensor `{name}_cuts` publishes them."
        ),
    )


def cuts_sensor(name: str, group: Callable[[], CutGroup]) -> dg.SensorDefinition:
    """Return the sensor that publishes cuts, at most as often as ``cuts.every`` says.

    Each tick does what needs no waiting, every 10 s. While another process publishes cuts of the
    tables, such as the command, it begins none. Transient errors skip the tick; others fail it.

    Args:
        name: Name of the file with `tables`, as it declares it.
        group: Loads the tables, as they are declared now; called at each tick.
    """

    @dg.sensor(
        name=f"{name}_cuts",
        minimum_interval_seconds=LOOK_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Publishes consistent cuts of the tables, at most every `cuts.every`.",
    )
    def publish(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = Cursor.model_validate_json(context.cursor) if context.cursor else Cursor()
        if cursor.attempt is None and now_ms() < cursor.next_ms:
            return _skip(cursor, f"Last: {cursor.last}. Next: from {second(cursor.next_ms)} on.")
        begun_ms = now_ms() if cursor.attempt is None else cursor.begun_ms
        with failures(None), leaving("Cuts that were published stay."):
            loaded = group()
            try:
                found = advance(loaded, cursor.attempt)
            except HybridError as error:
                if not (error.transient or isinstance(error, StateError)):
                    raise
                # Such as a table that still reads its snapshot.
                return _skip(cursor, error.message)
        if isinstance(found, UnderWay):
            awaited = "the runs" if found.ends else "the connector"
            text = f"Last: {cursor.last}. The next, at {found.mark.text}, waits for {awaited}."
            kept = cursor.model_copy(update={"attempt": found, "begun_ms": begun_ms})
            return _skip(kept, text)
        if isinstance(found, GivenUp):
            text = f"Last: {cursor.last}. An attempt was given up: {found.why}"
            return _skip(cursor.model_copy(update={"attempt": None}), text)
        every_ms = int(loaded.cuts.every.total_seconds() * 1000)
        kept = Cursor(next_ms=begun_ms + every_ms, last=str(found))
        return dg.SensorResult(asset_events=[_shown(name, found)], cursor=kept.model_dump_json())

    return publish


def _skip(cursor: Cursor, text: str) -> dg.SensorResult:
    return dg.SensorResult(skip_reason=text, cursor=cursor.model_dump_json())


def _shown(name: str, cut: Cut) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        cuts_key(name),
        metadata={
            "cut": cut.number,
            "position": cut.position,
            "database as of": second(to_ms(cut.committed_at)),
            "tables": metadata.table(
                [
                    {"table": table, "version": each.version, "path": each.path}
                    for table, each in cut.tables.items()
                ]
            ),
        },
    )

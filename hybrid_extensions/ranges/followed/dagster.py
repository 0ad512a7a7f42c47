"""Ranges of a followed table as partitions of what was made of them, for one backfill of both."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from hybrid_extensions.ranges.followed.follow import FollowedRange, follow
from hybrid_extensions.ranges.partitions import FOLLOWED, materialized_range
from hybrid_extensions.ranges.table.row_counts import rows_by_range
from orchestration.attribution import acting_user
from orchestration.defs.assets.upstream import upstream_keys
from orchestration.defs.keys import GENERATION_TAG, note_on_run
from orchestration.defs.show.dagster_remedies import say_in
from sources.config.loader import LoadedPipeline
from sources.serving import read_serving

DESCRIPTION = (
    "What was made of ranges of the followed table. Materializing a partition recomputes what was "
    "made of each range that was recomputed there, in one commit each, and does nothing if none "
    "was. Select it together with the ranges of the followed table: one backfill does both, in "
    "this order. The live run goes on."
)
"""Description of the asset of a follower's ranges."""
_TABLE = "table"


def followed_keys(loaded: LoadedPipeline) -> list[dg.AssetKey]:
    """Return the keys of the assets whose ranges a follower's ranges are made of.

    Those are the ranges of the pipeline whose table is followed; a table of no pipeline itself.

    Args:
        loaded: The pipeline that follows a table.
    """
    keys = upstream_keys(loaded, loaded.pipeline.sources[-1].name)
    return [
        dg.AssetKey([*key.path[:-1], "ranges"]) if key.path[-1] == _TABLE and key.path[1:] else key
        for key in keys
    ]


def follow_partitions(
    context: dg.AssetExecutionContext,
    loaded: LoadedPipeline,
    ranges: Mapping[str, tuple[datetime, datetime]],
) -> Iterator[dg.AssetMaterialization]:
    """Recompute what was made of recomputed ranges; yield an event for each partition of the run.

    Every range that has to follow does, also one of other partitions: the live run waits before the
    earliest.

    Args:
        context: Context of the run.
        loaded: The pipeline that follows a table.
        ranges: Begin (inclusive) and end (exclusive) in UTC of each partition of the run, by key.

    Raises:
        InputError, StateError, RunError, UnavailableError: As
            :func:`~hybrid_extensions.ranges.followed.follow.follow`.
    """
    generation = read_serving(loaded).generation
    note_on_run(context, {GENERATION_TAG: generation})
    done = follow(loaded, say_in(context, loaded), acting_user(context.run.tags, None))
    own = [each for each in done if each.generation == generation]
    rows = rows_by_range(loaded, ranges)
    for key, (since, until) in ranges.items():
        event = materialized_range(loaded, key, generation, FOLLOWED, rows.get(key))
        parts = [each for each in own if _is_of(each, since, until)]
        shown: dict[str, Any] = {
            "followed": " ".join(each.text for each in parts) or "Nothing had to follow.",
            "rows written": sum(each.rows.written for each in parts),
            "rows replaced": sum(each.rows.removed for each in parts),
        }
        yield event.with_metadata({**event.metadata, **shown})


def _is_of(done: FollowedRange, since: datetime, until: datetime) -> bool:
    return done.replaced.since < until and since < done.replaced.until

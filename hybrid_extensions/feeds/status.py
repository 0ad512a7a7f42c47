"""Feeds as a part of a pipeline's status."""

from __future__ import annotations

from collections.abc import Iterator

from hybrid_extensions.feeds.feed_health import FeedStatus, feed_statuses
from orchestration.supervision.status_part import Number, Row, StatusPart
from sources.common.durations import duration
from sources.config.loader import LoadedPipeline

_HEADINGS = ("feed", "type", "version", "versions behind", "behind for", "state")
HELP = {
    "feed_healthy": "Whether a second sink is not late, and agreed when compared",
    "feed_behind_versions": "Versions of the table that a second sink lacks",
    "feed_lag_seconds": "Since the oldest commit that a second sink lacks",
    "feed_agreeing_share": "Share of compared rows that agree with the table",
}
"""Help texts of the metrics of each feed, by name of the metric."""


def status_part(loaded: LoadedPipeline) -> StatusPart:
    """Return the progress of a pipeline's feeds as a part of its status.

    Without feeds the part has no rows.

    Args:
        loaded: The pipeline, as its file is now: a copy that was kept for a generation may have
            other feeds.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    found = feed_statuses(loaded)
    return StatusPart(
        "feeds",
        [each.model_dump(mode="json") for each in found],
        all(each.is_healthy for each in found),
        _HEADINGS,
        [_row(each) for each in found],
        [number for each in found for number in _numbers(loaded.pipeline.name, each)],
    )


def _row(found: FeedStatus) -> Row:
    counts = ("" if each is None else f"{each:,}" for each in (found.number, found.behind))
    since = duration(found.lag_s) if found.lag_s else ""
    return Row((found.name, found.type, *counts, since, found.text), found.is_healthy)


def _numbers(pipeline: str, found: FeedStatus) -> Iterator[Number]:
    values = {
        "feed_healthy": found.is_healthy,
        "feed_behind_versions": found.behind,
        "feed_lag_seconds": found.lag_s,
        "feed_agreeing_share": None if found.compared is None else found.compared.share,
    }
    labels = {"pipeline": pipeline, "feed": found.name}
    for name, value in values.items():
        if value is not None:
            yield Number(name, HELP[name], labels, value)

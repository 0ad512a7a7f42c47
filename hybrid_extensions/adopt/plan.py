"""Plan of an adoption: no file of history is read; the last source must be a followed topic."""

from __future__ import annotations

from dataclasses import replace

from sources.common.positions import HeldOffsets, StartPosition, nest
from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import ExportedFiles
from sources.config.source.kafka_options import StartAtOffsets
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from sources.files.listing.split_table import FileListing
from sources.hybrid import Boundedness
from sources.planning.files.file_plan import FilePlan
from sources.planning.plan import Plan, draft_plan


def followed_topic(loaded: LoadedPipeline) -> KafkaSource:
    """Return the topic that continues from the adopted table; refuse a chain that has none.

    A chain is refused if any source before the last is a topic, or is exported into the state.

    Raises:
        InputError: The last source is no topic that is followed without end, another one is a
            topic, or one is exported into the state.
    """
    loaded.pipeline.require_one_chain("To adopt a table")
    *earlier, last = loaded.pipeline.sources
    name = loaded.pipeline.name
    if not isinstance(last, KafkaSource) or last.boundedness is Boundedness.BOUNDED:
        message = (
            f"A table can't be adopted by pipeline `{name}`: its last source `{last.name}` is no "
            "topic that is followed without end, so no offsets say where it continues."
        )
        hint = "Compute the table: name another `sink.path`, and run `hybrid run P`."
        raise InputError(message, hint, source=last.name)
    for source in earlier:
        kind = "a topic" if isinstance(source, KafkaSource) else "exported into the state"
        if isinstance(source, KafkaSource | ExportedFiles):
            message = (
                f"A table can't be adopted by pipeline `{name}`: source `{source.name}` before the "
                f"last one is {kind}."
            )
            hint = f"Leave `{source.name}` out of `sources`: its rows are in the table."
            raise InputError(message, hint, source=source.name)
    return last


def draft_adopted(
    loaded: LoadedPipeline, start: StartPosition, table_version: int
) -> tuple[Plan, dict[str, FileListing]]:
    """Make a plan by which no file is read, and the topic starts where the table ends.

    Files of history are listed all the same, since they say the columns. Nothing is written.

    Args:
        loaded: The pipeline.
        start: Start of the topic.
        table_version: Version of the table.

    Returns:
        The plan; and the listing of each file source, by its name, without splits.

    Raises:
        InputError: The chain has no such topic, or a source can't be planned.
        SeamError: The topic's start is refused.
        StateError: A database snapshot in files is not complete.
        UnavailableError: The broker or a store does not answer.
    """
    topic, offsets = followed_topic(loaded), start.offsets()
    asked = topic.model_copy(
        update={"start": StartAtOffsets(offsets=nest(offsets)), "on_gap": "accept"}
    )
    # Whatever history says of its end does not matter.
    update = {"sources": [*loaded.pipeline.sources[:-1], asked], "seam_filter": "off"}
    pipeline = loaded.pipeline.model_copy(update=update)
    plan, listings = draft_plan(replace(loaded, pipeline=pipeline))
    held = HeldOffsets(next=offsets, exact=True, holes={})
    for part in plan.files:
        listing = listings[part.source]
        listings[part.source] = replace(listing, splits=listing.splits.slice(0, 0))
    assert plan.topic is not None  # the last source is one
    as_adopted = {
        "expected_start": start,
        "seam_end": offsets,
        "seam_rule": "none",
        "likely_overlap": None,
    }
    warning = f"Version {table_version} of the table is adopted: no file of history is read."
    made = plan.model_copy(
        update={
            "files": [_without_files(part, held) for part in plan.files],
            "topic": plan.topic.model_copy(update=as_adopted),
            "warnings": [warning, *plan.absent],
        }
    )
    return made, listings


def _without_files(part: FilePlan, held: HeldOffsets) -> FilePlan:
    end = part.end.model_copy(
        update={"offsets": held, "sequence": None, "snapshot": None, "splits": 0, "rows": 0}
    )
    nothing = {"splits": 0, "bytes": 0, "rows": 0, "disorder_ms": 0, "copied": None}
    return part.model_copy(update={**nothing, "end": end})

"""What Spark's checkpoint says was read and committed, source by source.

Layout: ``offsets/N`` is written before micro-batch N runs, ``commits/N`` after it. An offset file
holds a version, the batch's metadata and one line for each source in plan order; ``-`` stands for
a source that never had an offset.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sources.common.positions import Offsets, flatten


def _latest(folder: Path) -> int | None:
    try:
        numbers = [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return None
    return max(numbers, default=None)


def last_planned(checkpoint: Path) -> int | None:
    """Number of the last micro-batch that was begun."""
    return _latest(checkpoint / "offsets")


def last_committed(checkpoint: Path) -> int | None:
    """Number of the last micro-batch that was committed."""
    return _latest(checkpoint / "commits")


def committed_at_ms(checkpoint: Path, batch_id: int) -> int:
    """When a micro-batch was committed."""
    return (checkpoint / "commits" / str(batch_id)).stat().st_mtime_ns // 1_000_000


def offset_of(checkpoint: Path, batch_id: int, place: int) -> Any:
    """The end offset of a source in a micro-batch.

    Args:
        checkpoint: The checkpoint's folder.
        batch_id: Number of the micro-batch.
        place: Place of the source in the union, from 0.

    Returns:
        Spark's offset, decoded from JSON; None if the source never had one.
    """
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[2:]
    return None if place >= len(lines) or lines[place] == "-" else json.loads(lines[place])


def committed_offset(checkpoint: Path, place: int) -> Any:
    """The end offset of a source in the last committed micro-batch, or None."""
    batch_id = last_committed(checkpoint)
    return None if batch_id is None else offset_of(checkpoint, batch_id, place)


def kafka_offsets(offset: Any) -> Offsets:
    """A Kafka source's offset: first offset not yet read, by partition; empty if None."""
    return {} if offset is None else flatten(offset)


def reached(checkpoint: Path, place: int) -> Offsets:
    """First offsets that a Kafka source has not committed yet; empty if it never committed any."""
    return kafka_offsets(committed_offset(checkpoint, place))


def is_drained(offset: Any, versions: int) -> bool:
    """Whether a planned source, read through its Delta log, has nothing more to read.

    Delta's offset moves beyond a version when the last file of it has been taken in.

    Args:
        offset: The source's offset, or None.
        versions: How many versions its log has: the plan, and one for each round.
    """
    return offset is not None and offset["reservoirVersion"] >= versions


def position_in_plan(offset: Any, entries: Sequence[int]) -> int:
    """How many entries of a plan's Delta log an offset covers.

    Args:
        offset: The source's offset, or None.
        entries: How many entries each version of the log has.
    """
    if offset is None:
        return 0
    version = int(offset["reservoirVersion"])
    if version >= len(entries):
        return sum(entries)
    return sum(entries[:version]) + max(int(offset["index"]) + 1, 0)


def initial_kafka_offsets(checkpoint: Path, place: int) -> Offsets | None:
    """The start offsets that Spark fixed for a Kafka source at its first start, or None.

    From then on Spark ignores other starting offsets silently.
    """
    path = checkpoint / "sources" / str(place) / "0"
    if not path.exists():
        return None
    text = path.read_text()
    return flatten(json.loads(text[text.index("{") :]))


def query_id(checkpoint: Path) -> str | None:
    """The id of the query, as which Delta's streaming sink writes; None before its first start."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except FileNotFoundError:
        return None

"""Where a Kafka source starts and ends, and how its partitions advance."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from sources.common.fields import Declared, Duration, Instant, Reference


def _by_topic(value: Any) -> Any:
    """Accept the offsets of a single topic without its name."""
    if isinstance(value, dict) and not any(isinstance(part, dict) for part in value.values()):
        return {"": value}
    return value


class StartAtOffsets(Declared):
    """Fixed start: the first offset to read, for every partition.

    Attributes:
        offsets: ``{partition: offset}``, or ``{topic: {partition: offset}}`` for several topics.

    """

    offsets: Annotated[dict[str, dict[int, int]], BeforeValidator(_by_topic)] = Field(min_length=1)


class StartAtTimestamp(Declared):
    """Fixed start: the first record whose timestamp is at or after a time.

    Attributes:
        timestamp: The time, such as ``2024-01-01T00:00:00Z``.
    """

    timestamp: Instant


class StartAgo(Declared):
    """Fixed start: "now minus X", where now is the time of the hand-over (FLIP-150).

    Attributes:
        ago: How long before the hand-over, such as ``2 h``.
    """

    ago: Duration


class StartByFactory(Declared):
    """Dynamic start: a function that the user wrote.

    Attributes:
        factory: ``module:function``. It gets a :class:`sources.hybrid.SourceSwitchContext` and
            returns a datetime with a time zone, or offsets as ``start: {offsets: …}`` takes them.

    """

    factory: Reference


class EndAtOffsets(StartAtOffsets):
    """Fixed end: the first offset that is not read, for every partition."""


class EndAtTimestamp(StartAtTimestamp):
    """Fixed end: each partition ends before its first record at or after a time."""


class Align(Declared):
    """Partitions of a bounded source advance together in record time (FLIP-182).

    Attributes:
        drift: Highest difference between two partitions at the end of a micro-batch. A watermark
            delay that is shorter can drop rows.

    """

    drift: Duration = Field(ge=timedelta(milliseconds=1))

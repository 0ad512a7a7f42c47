"""Held offsets: Kafka offsets of which files of history have the records; an extension finds them.

A plan asks for them, so that the topic starts right after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sources.common.positions import HeldOffsets
from sources.extensions import required


class OffsetsInFiles(Protocol):
    """Interface of what finds the offsets that files hold, each with warnings for the plan."""

    def by_names(
        self, paths: Sequence[str], rows: Sequence[int | None]
    ) -> tuple[HeldOffsets, list[str]]:
        """Return the offsets that files hold by their names, those of Kafka Connect's sinks.

        No file is opened. Names of the S3 sink have no end: then they are never exact.

        Args:
            paths: Paths of the files.
            rows: Number of rows of each file, which stands for an end that its name lacks; None
                where not known.

        Returns:
            The offsets; and warnings of files that do not have as many rows as offsets.

        Raises:
            InputError: A name contains no offsets, or impossible ones.
        """

    def by_columns(
        self, paths: Sequence[str], topic: str, partition_column: str, offset_column: str
    ) -> tuple[HeldOffsets, list[str]]:
        """Return the offsets that Parquet files hold by columns of partition and offset.

        Reads the two columns of all files. The offsets are exact. Returned with warnings, too.

        Args:
            paths: Paths of the files.
            topic: Topic that all rows come from.
            partition_column: Column with Kafka's partition numbers.
            offset_column: Column with Kafka's offsets.

        Raises:
            InputError: A file can't be read, or a column has no such numbers.
        """


def offsets_in_files() -> OffsetsInFiles:
    """Return what the first installed extension that finds offsets in files adds.

    Raises:
        InputError: No installed extension does.
    """
    does = "finds the Kafka offsets that files hold"
    otherwise = "remove `offsets` from the source, so that the topic starts by event time"
    found: OffsetsInFiles = required("held_offsets", does, otherwise, field="offsets")
    return found

"""Held offsets: Kafka offsets of which files of history have the records; an extension finds them.

A plan asks for them, so that the topic starts right after the last one. They count in one log only:
plan and hand-over ask whether the topic is that log, as far as its records show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sources.common.positions import EndPosition, HeldOffsets, StartPosition
from sources.common.topic_log import Log
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.extensions import contributions, required
from sources.files.listing.split_table import FileListing


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
        self, pipeline: Pipeline, source: FileSource, listing: FileListing, paths: Sequence[str]
    ) -> tuple[HeldOffsets, list[str]]:
        """Return the offsets that Parquet files hold by columns of partition and offset.

        Reads the two columns of all files, and the last rows of some partitions. The offsets are
        exact. Returned with warnings, too.

        Args:
            pipeline: Declaration of the pipeline; a single topic follows the source.
            source: Declaration of the source, whose ``offsets`` names the columns.
            listing: Splits of the source.
            paths: Paths of its files, and of those of earlier sources with the same ``offsets``.

        Raises:
            InputError: A file can't be read, or a column has no such numbers.
        """

    def compare_log(
        self,
        pipeline: Pipeline,
        source: KafkaSource,
        read: Mapping[str, str],
        log: Log,
        ends: Sequence[EndPosition],
    ) -> list[str]:
        """Compare records of a topic with what history holds at their offsets; as below."""


def check_same_log(
    pipeline: Pipeline,
    source: KafkaSource,
    read: Mapping[str, str],
    log: Log,
    ends: Sequence[EndPosition],
    start: StartPosition,
) -> list[str]:
    """Refuse to start a topic at offsets that history holds of another log, if records show it.

    Called by the plan and at the hand-over. Offsets count in the log only that gave them to the
    records; a mirror, or a topic that was created again, has others. A record that is deleted, or
    can't be decoded, shows nothing.

    Args:
        pipeline: Declaration of the pipeline.
        source: Declaration of the topic's source.
        read: All columns of a row before ``select``: names and Spark SQL types.
        log: Look-ups on the topics.
        ends: End positions of all sources before the topic, in order.
        start: Start position of the topic.

    Returns:
        Warnings about records that differ from history, but may be of the same log.

    Raises:
        SeamError: A record is surely not the one that history holds at its offset.
        UnavailableError: The broker, or the schema registry, does not answer.
        InputError: The broker refuses.
    """
    is_by_offsets = start.evidence == "offsets" and ends and ends[-1].exact_offsets
    added = contributions("held_offsets") if is_by_offsets else ()
    return [each for one in added for each in one.compare_log(pipeline, source, read, log, ends)]


def offsets_in_files() -> OffsetsInFiles:
    """Return what the first installed extension that finds offsets in files adds.

    Raises:
        InputError: No installed extension does.
    """
    does = "finds the Kafka offsets that files hold"
    otherwise = "remove `offsets` from the source, so that the topic starts by event time"
    found: OffsetsInFiles = required("held_offsets", does, otherwise, field="offsets")
    return found

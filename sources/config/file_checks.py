"""Checks of a file source's declaration that concern several fields, or the source after it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from sources.config.declared_source import Chain, DeclaredSource
from sources.decoding.value_format import EnvelopePart

_ALLOWED_WITH_SNAPSHOT = {"batch", "name", "path", "rate", "snapshot", "type"}
_NEEDS_AN_END = {"complete_through", "converge", "offsets", "sequence", "time_range"}
_SNAPSHOT_PARTS: tuple[EnvelopePart, ...] = ("position", "lsn", "transaction", "committed_at")


def check_bad_rows(form: str, on_bad_record: str, *, multiline: bool) -> None:
    """Refuse a policy for bad rows where rows can't be read one by one.

    Args:
        form: Format of the files.
        on_bad_record: The policy, other than ``fail``.
        multiline: Whether values of CSV files may contain line breaks.

    Raises:
        ValueError: The format, or the dialect, does not allow it.
    """
    asked = f"`on_bad_record: {on_bad_record}`"
    if form == "text":
        message = f"{asked} has no meaning for text: every line is a row."
        raise ValueError(message)
    if form not in ("json", "csv"):
        message = (
            f"{asked} is for json and csv, whose lines can be read one by one: {form} "
            "files carry their types, and one that can't be read is damaged as a whole."
        )
        raise ValueError(message)
    if form == "csv" and multiline:
        message = (
            f"{asked} can't be combined with `csv.multiline`: the end of a row that can't be read "
            "is unknown. Omit one of them."
        )
        raise ValueError(message)


def check_endless(form: str, interval: timedelta, given: Collection[str]) -> None:
    """Refuse what has no meaning for a folder that is read without end.

    Args:
        form: Format of the files.
        interval: ``discovery_interval``.
        given: Fields that are declared.

    Raises:
        ValueError: Names the field.
    """
    if interval <= timedelta(0):
        message = "`discovery_interval` must be longer than 0 s."
        raise ValueError(message)
    if form == "delta":
        message = (
            "a Delta table is read at one version: `discovery_interval` has no meaning for it."
        )
        raise ValueError(message)
    if ends := _NEEDS_AN_END & set(given):
        message = f"with `discovery_interval` the source has no end: `{min(ends)}` has no meaning."
        raise ValueError(message)


def check_snapshot(form: str, patterns: Sequence[str], given: Collection[str]) -> None:
    """Refuse what has no meaning for files that ``hybrid snapshot`` writes.

    Args:
        form: Format of the files.
        patterns: Globs of the files.
        given: Fields that are declared.

    Raises:
        ValueError: Names the field.
    """
    others = set(given) - _ALLOWED_WITH_SNAPSHOT
    if form != "parquet" or (others := others - {"format"}):
        name = min(others, default="format")
        message = (
            "with `snapshot` the files are Parquet and have the columns of the topic: "
            f"omit `{name}`."
        )
        raise ValueError(message)
    if len(patterns) != 1 or not patterns[0].endswith("/*.parquet"):
        message = "with `snapshot` the `path` is `<folder>/*.parquet`, of a folder of its own."
        raise ValueError(message)
    if "://" in patterns[0] or "*" in patterns[0].removesuffix("*.parquet"):
        message = "with `snapshot` the `path` is one folder of this machine."
        raise ValueError(message)


def check_snapshot_changes(name: str, after: DeclaredSource | None, chain: Chain) -> None:
    """Refuse a snapshot whose changes do not carry what the hand-over needs.

    Args:
        name: Source with the snapshot.
        after: Source right after it.
        chain: The pipeline.

    Raises:
        ValueError: Names what is missing.
    """
    if after is None or not after.holds_changes or after.select:
        message = (
            f"source `{name}` is a `snapshot`: a topic with `format: debezium`, without "
            "`select`, has to come after it."
        )
        raise ValueError(message)
    for part in _SNAPSHOT_PARTS:
        if after.envelope_column(part) is None:
            message = (
                f"source `{after.name}` needs `include: {{<column>: {part}}}`: the hand-over from "
                f"the snapshot `{name}` is decided by it."
            )
            raise ValueError(message)
    if chain.event_time != after.envelope_column("committed_at"):
        message = (
            f"`event_time: {chain.event_time}`: after a snapshot it has to be "
            f"`{after.envelope_column('committed_at')}`, the time of the commit."
        )
        raise ValueError(message)


def check_sequence(name: str, after: DeclaredSource | None, chain: Chain) -> None:
    """Refuse the log position of a snapshot that nothing can be compared with.

    Args:
        name: Source that declares its ``sequence``.
        after: Source right after it.
        chain: The pipeline.

    Raises:
        ValueError: Names what is missing.
    """
    if after is None or not after.has_hand_over:
        message = f"source `{name}` has a `sequence`, but no topic comes after it."
        raise ValueError(message)
    if after.holds_changes and not chain.sink.sequence:
        message = (
            f"source `{name}` declares the `sequence` of a snapshot, which does not tell which "
            "transactions were in flight: their changes lie before it, and would be lost. "
            "Merge the changes, with `sink.sequence`, or let `hybrid snapshot` take it."
        )
        raise ValueError(message)
    if chain.sequence is None:
        message = (
            f"source `{name}` declares its `sequence`, but the pipeline does not declare the "
            "column that holds a row's: add `sequence: <column>`."
        )
        raise ValueError(message)

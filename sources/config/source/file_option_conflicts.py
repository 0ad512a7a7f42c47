"""Conflicts of a file source's bad rows, drift, order, interval, snapshot, sequence: refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from sources.config.source.declared_source import Chain, DeclaredSource
from sources.config.source.file_options import ArrivalOrder, OffsetColumns, SchemaDrift
from sources.config.source.snapshot import SnapshotOptions
from sources.hybrid import Boundedness

_ALLOWED_WITH_SNAPSHOT = {"batch", "name", "path", "rate", "snapshot", "type"}
_BY_EVENT_TIME = {
    "batch": "an interval of arrival is one micro-batch",
    "converge": "files that are found later may hold rows that arrived earlier",
    "discovery_interval": "files that are found later may hold rows that arrived earlier",
    "schema_drift": "the files are not read by Spark itself",
    "snapshot": "the rows of a snapshot did not arrive one after the other",
    "time_range": "a live run would have read the other rows, too",
}
_NEEDS_AN_END = {"complete_through", "converge", "offsets", "sequence", "time_range"}
_OF_ONE_VERSION = {"table", "version"}


def check_bad_rows(form: str, on_bad_record: str, *, multiline: bool) -> None:
    """Refuse to drop or quarantine bad rows, but for ``json``, and ``csv`` without ``multiline``.

    Of ``text`` each line is a valid row; a file of another format is damaged as a whole.

    Args:
        form: Format of the files.
        on_bad_record: The policy, other than ``fail``.
        multiline: Whether values of CSV files may contain line breaks.

    Raises:
        ValueError: Says what to declare instead.
    """
    asked = f"`on_bad_record: {on_bad_record}`"
    if form == "text":
        message = (
            f"{asked} has no meaning with `format: text`, where every line is a valid row. Remove "
            "`on_bad_record`."
        )
        raise ValueError(message)
    if form not in ("json", "csv"):
        message = (
            f"{asked} works only with `format: json` and `format: csv`, whose lines are read one "
            f"by one; here it is `format: {form}`, where a file that can't be read is damaged as a "
            "whole. Remove `on_bad_record`."
        )
        raise ValueError(message)
    if form == "csv" and multiline:
        message = (
            f"{asked} can't be combined with `csv.multiline`: the end of a row that can't be read "
            "is unknown. Remove `on_bad_record`, or `csv.multiline` if no value contains a line "
            "break."
        )
        raise ValueError(message)


def check_drift(form: str, drift: SchemaDrift, offsets: object) -> None:
    """Refuse ``schema_drift`` for formats that don't have it, or about the columns of ``offsets``.

    Args:
        form: Format of the files.
        drift: The declared differences.
        offsets: Declaration of where the files hold Kafka offsets.

    Raises:
        ValueError: Says what to declare instead.
    """
    if form not in ("parquet", "avro", "orc"):
        message = (
            f"`schema_drift` has no meaning with `format: {form}`; only Parquet, Avro and ORC "
            "files of different columns are read as one. Remove `schema_drift`."
        )
        raise ValueError(message)
    if not isinstance(offsets, OffsetColumns):
        return
    touched = {*drift.renamed, *drift.renamed.values(), *drift.defaults}
    if both := touched & {offsets.partition, offsets.offset}:
        message = (
            f"column `{min(both)}` is in `offsets` and in `schema_drift`: each file has to hold "
            "the offsets of its own rows, under one name. Remove it from `schema_drift`, or remove "
            "`offsets`."
        )
        raise ValueError(message)


def check_endless(form: str, interval: timedelta, given: Collection[str]) -> None:
    """Refuse fields that need an end in a source that reads a folder or table without end.

    Args:
        form: Format of the files.
        interval: ``discovery_interval``: time between two listings.
        given: Names of the fields that the source declares.

    Raises:
        ValueError: Such a field is declared, the interval is 0 or less, or a table is read whose
            commits can't be followed.
    """
    if interval <= timedelta(0):
        message = (
            f"`discovery_interval` is {interval.total_seconds():g} s; it must be longer than 0 s. "
            "Write the time between two listings of the folder, such as `10 s`, or remove the "
            "field to read only the files that exist."
        )
        raise ValueError(message)
    if form == "iceberg":
        message = (
            "`discovery_interval` has no meaning with `format: iceberg`: such a table is read at "
            "one version. Remove `discovery_interval`."
        )
        raise ValueError(message)
    needs = _NEEDS_AN_END | (_OF_ONE_VERSION if form == "delta" else set())
    if ends := needs & set(given):
        message = (
            f"`{min(ends)}` has no meaning with `discovery_interval`, by which the folder is read "
            f"without end. Remove `{min(ends)}`, or remove `discovery_interval` to read only the "
            "files that exist."
        )
        raise ValueError(message)


def check_arrival(form: str, given: Collection[str]) -> None:
    """Refuse ``order`` by arrival for a format, or next to fields, that it can't be combined with.

    Called while the declaration is validated, for a source that declares such an order.

    Args:
        form: Format of the files; only ``parquet`` passes, as single columns have to be read.
        given: Names of the fields that the source declares. Refused are ``batch``, ``converge``,
            ``discovery_interval``, ``schema_drift``, ``snapshot`` and ``time_range``.

    Raises:
        ValueError: Says which, why, and what to declare instead.
    """
    if form != "parquet":
        message = (
            f"`order` by arrival needs `format: parquet`, of which single columns can be read; "
            f"here it is `format: {form}`. Rewrite the files as Parquet, or remove `order`."
        )
        raise ValueError(message)
    for name, why in _BY_EVENT_TIME.items():
        if name in given:
            message = (
                f"`{name}` can't be combined with `order` by arrival: {why}. Remove one of the two."
            )
            raise ValueError(message)


def check_arrival_offsets(order: ArrivalOrder, offsets: object) -> None:
    """Refuse an order by offsets if its column is not the offset column of ``offsets``.

    Args:
        order: The declared order of arrival.
        offsets: Declaration of where the files hold Kafka offsets.

    Raises:
        ValueError: Says what to declare instead.
    """
    has_column = isinstance(offsets, OffsetColumns) and offsets.offset == order.arrival
    if order.is_by_offset and not has_column:
        message = (
            f"`order.every: {order.every}` counts offsets, but `{order.arrival}` is not declared "
            f"to hold them. Declare `offsets: {{partition: …, offset: {order.arrival}}}`; or, if "
            "it is a time, a duration such as `every: 10 min`."
        )
        raise ValueError(message)


def check_snapshot(form: str, patterns: Sequence[str], given: Collection[str]) -> None:
    """Refuse fields that contradict the files that ``hybrid snapshot`` writes.

    Args:
        form: Format of the files.
        patterns: Globs of the files.
        given: Names of the fields that the source declares.

    Raises:
        ValueError: A field can't be combined with ``snapshot``, or ``path`` is not one folder with
            ``/*.parquet``.
    """
    others = set(given) - _ALLOWED_WITH_SNAPSHOT
    if form != "parquet" or (others := others - {"format"}):
        name = min(others, default="format")
        advice = "Declare `format: parquet`" if name == "format" else f"Remove `{name}`"
        message = (
            f"`{name}` can't be chosen with `snapshot`: `hybrid snapshot P` writes Parquet files "
            f"with the columns of the topic. {advice}, or remove `snapshot`."
        )
        raise ValueError(message)
    if len(patterns) != 1 or not patterns[0].endswith("/*.parquet"):
        message = (
            f"`path: {', '.join(patterns)}` can't hold a `snapshot`, which needs one folder of its "
            "own. Write `path: <folder>/*.parquet`, with a folder that nothing else writes to."
        )
        raise ValueError(message)
    if "*" in patterns[0].removesuffix("*.parquet"):
        message = (
            f"`path: {patterns[0]}` can't hold a `snapshot`, which is written to one folder. Write "
            "`path: <folder>/*.parquet`, without `*` in the folder."
        )
        raise ValueError(message)


def check_snapshot_changes(
    name: str, options: SnapshotOptions, after: DeclaredSource | None, chain: Chain
) -> None:
    """Refuse a snapshot whose next source is no topic of changes that fits the hand-over.

    With ``follow: while_reading``, sink and topic have to fit as well (:func:`check_following`).

    Args:
        name: Name of the source with the snapshot.
        options: The declared snapshot.
        after: Source right after it in the chain; None if there is none.
        chain: The pipeline.

    Raises:
        ValueError: No such topic follows, it has ``select``, it lacks a column for a part of the
            envelope, or the event time is not the time of commit; or as of
            :func:`check_following`.
    """
    if after is None or after.changes is None or after.select:
        message = (
            f"source `{name}` has a `snapshot`, so the source after it must be a topic with "
            "`format: debezium` and without `select`; "
            f"{'there is no source after it' if after is None else f'`{after.name}` is not'}. "
            "Declare such a topic right after it, or remove `snapshot`."
        )
        raise ValueError(message)
    for part in options.parts:
        if after.envelope_column(part) is None:
            message = (
                f"source `{after.name}` has no column for the `{part}` of a change, by which the "
                f"hand-over from the snapshot `{name}` is decided. Add "
                f"`include: {{<column>: {part}}}` to `{after.name}`."
            )
            raise ValueError(message)
    if chain.event_time.column != after.envelope_column("committed_at"):
        message = (
            f"`event_time: {chain.event_time.column}` is not the time of the commit, which it must "
            "be in a pipeline with a `snapshot`. Write "
            f"`event_time: {after.envelope_column('committed_at')}`."
        )
        raise ValueError(message)
    if options.follows_while_reading:
        check_following(name, after, chain)


def check_following(name: str, after: DeclaredSource, chain: Chain) -> None:
    """Refuse to follow changes while a snapshot is read where order or history would be wrong.

    Args:
        name: Name of the source with the snapshot.
        after: Source right after it in the chain, a topic of changes.
        chain: The pipeline.

    Raises:
        ValueError: The topic has an end, the sink does not merge by the position of changes, or it
            keeps every version of a row.
    """
    sink, position = chain.sink, after.envelope_column("position")
    if after.boundedness is Boundedness.BOUNDED:
        why = f"source `{after.name}` has an end, and is not followed"
        way = f"Remove `until` from `{after.name}`"
    elif sink.mode != "merge" or position is None or sink.order != [position]:
        why = "only the position of changes distinguishes rows of late chunks from newer ones"
        column = position or "<column>"
        way = f"Declare `mode: merge` and `sequence: {column}` under `sink`"
        way += "" if position else f", and `include: {{<column>: position}}` for `{after.name}`"
    elif sink.history is not None:
        why = "a row that a late chunk holds may be newer than changes that are merged after it"
        way = "Remove `sink.history`"
    else:
        return
    message = (
        f"`follow: while_reading` of snapshot `{name}` does not fit: {why}. {way}, or remove "
        "`follow`."
    )
    raise ValueError(message)


def check_snapshot_sequence(name: str, after: DeclaredSource | None, chain: Chain) -> None:
    """Refuse a declared log position (``sequence``) that later rows can't be compared with.

    Args:
        name: Name of the source that declares the log position of its database snapshot.
        after: Source right after it in the chain; None if there is none.
        chain: The pipeline.

    Raises:
        ValueError: No topic follows, the sink does not order changes, or the pipeline names no
            column ``sequence``.
    """
    if after is None or not after.has_hand_over:
        message = (
            f"source `{name}` declares a `sequence`, but the source after it is no topic whose "
            "changes could be compared with this log position. Remove `sequence`, or put a source "
            f"with `type: kafka` right after `{name}`."
        )
        raise ValueError(message)
    if after.changes is not None and not chain.sink.sequence:
        message = (
            f"source `{name}` declares the `sequence` of a database snapshot. Transactions that "
            "were in flight when the snapshot was taken have changes before this log position; "
            "these changes would be missing from the table. Declare `mode: merge` and `sequence` "
            "in `sink`, or replace `sequence` by `snapshot` and let `hybrid snapshot P` copy the "
            "table."
        )
        raise ValueError(message)
    if chain.sequence is None:
        message = (
            f"source `{name}` declares a `sequence`, but the pipeline does not name the column "
            "that holds the log position of each row. Add `sequence: <column>` to the pipeline, "
            f"or remove `sequence` from `{name}`."
        )
        raise ValueError(message)

"""Ranges of label times: their keys, which are those of Dagster's partitions, and their ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hybrid_extensions.comparison.duckdb_database import INSTANT
from hybrid_extensions.training.sets.declare import Labels
from sources.common.sql.sql_names import quoted
from sources.errors import InputError

_FORMATS = {"hour": "%Y-%m-%d-%H:%M", "day": "%Y-%m-%d", "month": "%Y-%m-%d"}


def key_sql(labels: Labels) -> str:
    """Return DuckDB's SQL of the key of the range that a label is in; null without a time."""
    time = f"CAST({quoted(labels.time)} AS {INSTANT})"
    return f"strftime(date_trunc('{labels.by}', {time}), '{_FORMATS[labels.by]}')"


def begin_of(labels: Labels, key: str) -> datetime:
    """Return the first time of a range, in UTC.

    Raises:
        InputError: The text is no key of a range.
    """
    form = _FORMATS[labels.by]
    try:
        begin = datetime.strptime(key, form).replace(tzinfo=UTC)
    except ValueError:
        begin = None
    if begin is None or key != begin.strftime(form) or (labels.by == "month" and begin.day != 1):
        example = datetime.combine(labels.start, datetime.min.time()).strftime(form)
        message = f"`{key}` is no range of label times by {labels.by}."
        raise InputError(message, f"Write one such as `{example}`.", value=key)
    return begin


def is_key(labels: Labels, key: str) -> bool:
    """Return whether a text is the key of a range."""
    try:
        begin_of(labels, key)
    except InputError:
        return False
    return True


def end_of(labels: Labels, key: str) -> datetime:
    """Return the first time after a range, in UTC.

    Raises:
        InputError: The text is no key of a range.
    """
    begin = begin_of(labels, key)
    if labels.by == "month":
        return (begin + timedelta(days=31)).replace(day=1)
    return begin + (timedelta(hours=1) if labels.by == "hour" else timedelta(days=1))

"""Connector's settings that lose or alter changes are refused: skipped operations, masks, times.

https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-connector-properties
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from hybrid_extensions.cdc.databases.kafka_connect import ask_connect, read_config
from hybrid_extensions.cdc.databases.name_patterns import is_listed
from sources.common.schema import parse_type
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.declared_table import DeclaredTable
from sources.errors import InputError

_MASKS = ("column.mask.", "column.truncate.")
# A double has that many digits.
_DIGITS = 15
_ON_FAILURE = (
    "event.deserialization.failure.handling.mode",
    "event.processing.failure.handling.mode",
    "inconsistent.schema.handling.mode",
)


class Misset(NamedTuple):
    """Setting of a connector that would lose or alter changes of a table.

    Attributes:
        name: Its name.
        value: What it is set to, or the default that applies.
        why: What follows from it, as a clause.
        needed: What to set instead; empty to remove it.
    """

    name: str
    value: str
    why: str
    needed: str

    def __str__(self) -> str:
        """Return the setting and its consequence, as a clause."""
        return f"`{self.name}={self.value}`: {self.why}"

    @property
    def remedy(self) -> str:
        """How to correct the setting, as a clause.

        Without a full stop, and beginning with a small letter.
        """
        if not self.needed:
            return f"remove `{self.name}` from the connector's configuration"
        return f"set `{self.name}={self.needed}` in the connector's configuration"


def find_misset(
    config: Mapping[str, Any],
    table: DeclaredTable,
    columns: Mapping[str, str],
    *,
    has_binlog: bool,
    only_written: bool = False,
) -> Misset | None:
    """Return the first setting that would lose changes of a table or alter their values; or None.

    Args:
        config: The connector's configuration, as Kafka Connect returns it.
        table: The table as it is declared.
        columns: Its columns, and their Spark SQL types.
        has_binlog: Whether it is a table of MariaDB or MySQL.
        only_written: True for a live run: settings that are not in the configuration pass, whatever
            their default is, as the run began with them.
    """
    written = {name: str(value) for name, value in config.items() if value is not None}
    kinds = [parse_type(kind) for kind in columns.values()]
    found = [
        *(() if only_written else left_out(written)),
        *_losing(written, table, is_live=only_written),
        *(_of_binlog(written, kinds) if has_binlog else ()),
        *_changing(written, table, columns),
    ]
    judged = [each for each in found if not only_written or each.name in written]
    return judged[0] if judged else None


def require_settings(options: SnapshotOptions, topic: KafkaSource) -> None:
    """Refuse a snapshot whose connector would lose changes or alter their values.

    Asks Kafka Connect for the configuration; does nothing if no ``connector`` is declared.

    Args:
        options: The declared snapshot.
        topic: The topic of the table's changes.

    Raises:
        InputError: Names the setting and the right value; or Kafka Connect does not know the
            connector.
        UnavailableError: Kafka Connect does not answer.
    """
    url, table = options.connector, topic.changes
    if url is None or table is None:
        return
    has_binlog = not options.kind.has_slots
    misset = find_misset(read_config(url), table, topic.value_columns, has_binlog=has_binlog)
    if misset is None:
        return
    message = f"Connector {url}, which captures table `{table.table}`, has {misset}."
    hint = (
        f"{misset.remedy[0].upper()}{misset.remedy[1:]} (`PUT {url}/config`); then take the "
        "snapshot: `hybrid snapshot P`."
    )
    raise InputError(
        message, hint, table=table.table, field="snapshot.connector", value=misset.name
    )


def settings_problem(options: SnapshotOptions, topic: KafkaSource | None) -> str:
    """Return a sentence about a setting of a live run's connector that loses changes; or "".

    Asks Kafka Connect, and raises nothing: empty, too, if it does not answer or no connector is
    declared.

    Args:
        options: The declared snapshot.
        topic: The topic of the table's changes; None passes.
    """
    url, table = options.connector, None if topic is None else topic.changes
    if url is None or topic is None or table is None:
        return ""
    try:
        config = ask_connect(url, "/config")
    except (OSError, ValueError):
        return ""
    has_binlog = not options.kind.has_slots
    misset = find_misset(
        config, table, topic.value_columns, has_binlog=has_binlog, only_written=True
    )
    if misset is None:
        return ""
    return (
        f"Connector {url} has {misset}. {misset.remedy[0].upper()}{misset.remedy[1:]}, then begin "
        "a new generation with a new snapshot, as rows may be wrong since."
    )


def left_out(config: Mapping[str, str]) -> Iterator[Misset]:
    """Yield a :class:`Misset` if the connector skips inserts, updates or deletes.

    Nothing if it skips only TRUNCATEs, which is the default.

    Args:
        config: The connector's configuration.
    """
    value = config.get("skipped.operations", "t")
    if _operations(value) & {"c", "u", "d"}:
        yield Misset("skipped.operations", value, "such changes are left out", "none")


def _operations(value: str) -> set[str]:
    return {each.strip().lower() for each in value.split(",")}


def _losing(config: Mapping[str, str], table: DeclaredTable, *, is_live: bool) -> Iterator[Misset]:
    for name in _ON_FAILURE:
        if (value := config.get(name, "fail")).lower() != "fail":
            yield Misset(name, value, "changes that it can't read are left out", "fail")
    value = config.get("skipped.operations", "t")
    # A live run that only has to stop at one has lost nothing as long as there was none.
    if "t" in _operations(value) and (table.follows_truncates or not is_live):
        what = "follow it" if table.follows_truncates else "stop at it, and the target keeps rows"
        why = f"a TRUNCATE is not reported, so `on_truncate: {table.on_truncate}` can't {what}"
        yield Misset("skipped.operations", value, why, "none")
    if config.get("gtid.source.filter.dml.events", "true").lower() == "true":
        for name in ("gtid.source.includes", "gtid.source.excludes"):
            if value := config.get(name, ""):
                yield Misset(name, value, "changes of other servers are left out", "")


def _of_binlog(config: Mapping[str, str], kinds: list[pa.DataType]) -> Iterator[Misset]:
    name = "enable.time.adjuster"
    value = config.get(name, "true")
    has_times = any(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in kinds)
    if value.lower() != "false" and has_times:
        yield Misset(name, value, "years 1 to 99 of dates become 1970 to 2069", "false")
    name, usual = "time.precision.mode", "adaptive_time_microseconds"
    value = config.get(name, usual)
    if value.lower() in ("connect", "nanoseconds"):
        yield Misset(name, value, "times are cut to milliseconds, or have another unit", usual)
    name = "bigint.unsigned.handling.mode"
    value = config.get(name, "long")
    if value.lower() != "precise" and pa.decimal128(20, 0) in kinds:
        why = "numbers of `bigint unsigned` from 2^63 on become negative"
        yield Misset(name, value, why, "precise")


def _changing(
    config: Mapping[str, str], table: DeclaredTable, columns: Mapping[str, str]
) -> Iterator[Misset]:
    kinds = [parse_type(kind) for kind in columns.values()]
    name, value = "decimal.handling.mode", config.get("decimal.handling.mode", "precise")
    is_long = any(pa.types.is_decimal(kind) and kind.precision > _DIGITS for kind in kinds)
    if value.lower() == "double" and is_long:
        why = f"decimals of more than {_DIGITS} digits are rounded"
        yield Misset(name, value, why, "string")
    name, value = "binary.handling.mode", config.get("binary.handling.mode", "bytes")
    declared = table.binary_handling_mode or "bytes"
    if any(map(pa.types.is_binary, kinds)) and _text_form(value) != _text_form(declared):
        why = f"the source declares `binary_handling_mode: {declared}`, or leaves it out"
        yield Misset(name, value, why, declared)
    for name, value in config.items():
        if not name.startswith(_MASKS):
            continue
        for column in columns:
            if is_listed(f"{table.table}.{column}", value):
                why = f"column `{column}` has other values than in the database"
                yield Misset(name, value, why, "")
                break


def _text_form(mode: str) -> str:
    return "base64" if mode.lower() == "bytes" else mode.lower()

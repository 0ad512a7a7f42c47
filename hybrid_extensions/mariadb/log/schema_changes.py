"""Statements (DDL) in the connector's own topic, in order; gaps, where some may be missing.

Debezium writes each to the topic that has the name of ``topic.prefix``, before the first change of
a row that has the new definition.
https://debezium.io/documentation/reference/stable/connectors/mariadb.html#mariadb-schema-change-topic
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hybrid_extensions.cdc.databases.captured_table import UnknownDefault
from hybrid_extensions.cdc.debezium.json_envelopes import envelopes_by
from hybrid_extensions.cdc.debezium.positions import is_of_snapshot
from hybrid_extensions.mariadb.catalog_definition import reported_definition
from hybrid_extensions.mariadb.log.gtid import parse_gtids
from sources.common.conversion import BadValue
from sources.common.database_snapshot import BinlogSnapshot
from sources.common.positions import Offsets
from sources.common.table_definition import BinlogDefinition
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.client.kafka_log import KafkaLog


class SchemaChange(NamedTuple):
    """DDL statement, and the table's definition after it.

    Attributes:
        statement: The statement, as it is in the binary log.
        columns: Names of the table's columns; empty if it was dropped, and where the connector
            reports no definition of it.
        is_read: Whether the connector read the definition from the server as it began, so that
            ``statement`` is none that changed the table.
        gtid: GTID of the statement, such as ``0-1-129``; empty if there is none.
        file: Number of the binary log's file.
        offset: Position in the file, in bytes.
        kind: What the statement did to the table: ``CREATE``, ``ALTER`` or ``DROP``; empty where
            the connector reports no definition of it.
        database: The database that names without one belong to.
        definition: The table after it; None if it was dropped, or is not reported.
        at_ms: When it was executed, in ms since 1970; 0 if unknown.
    """

    statement: str
    columns: list[str]
    is_read: bool
    gtid: str
    file: int
    offset: int
    kind: str = ""
    database: str = ""
    definition: BinlogDefinition | None = None
    at_ms: int = 0

    def is_in(self, snapshot: BinlogSnapshot) -> bool:
        """Return whether a snapshot was taken after the statement, and so contains its effect.

        Raises:
            UnknownDefault: The order is not known.
        """
        if snapshot.domain is not None and not self.is_read:
            for each in parse_gtids(self.gtid):
                if each.domain == snapshot.domain:
                    return each.sequence <= snapshot.sequence
            reason = (
                f"the statement `{self.statement}` has no GTID of domain {snapshot.domain}, in "
                "which the snapshot was taken"
            )
            raise UnknownDefault(reason)
        place = (snapshot.file, snapshot.offset)
        # A statement begins at its position, and a definition is read at it.
        return (
            (self.file, self.offset) <= place if self.is_read else (self.file, self.offset) < place
        )


class Statements(NamedTuple):
    """Content of the topic of statements, from some offsets on.

    Attributes:
        changes: The statements, in order.
        ends: Offsets up to which it was read (exclusive), by partition.
        gap: Why statements may be missing among these, as a clause; None if none are.
    """

    changes: list[SchemaChange]
    ends: Offsets
    gap: str | None = None


def read_schema_changes(source: KafkaSource, connector: str) -> list[SchemaChange]:
    """Return a table's DDL statements with the definitions after them, in order.

    Statements without a definition of this table are left out.

    Args:
        source: The topic of the table's changes; its broker and encoding are those of the topic
            that is read.
        connector: The connector's ``topic.prefix``, the name of that topic.

    Raises:
        UnknownDefault: The order of the topic's records is not known, or one can't be decoded.
        InputError: There is no such topic, or the broker or the schema registry refuses.
        UnavailableError: The broker or the schema registry does not answer.
    """
    found = read_statements(source, connector, {})
    if found.gap is not None:
        raise UnknownDefault(found.gap)
    return [each for each in found.changes if each.kind]


def read_statements(source: KafkaSource, connector: str, starts: Offsets) -> Statements:
    """Return all statements that a connector reports from some offsets on, in order.

    Args:
        source: The topic of the table's changes, whose broker and encoding the topic of statements
            shares; definitions are those of its table.
        connector: The connector's ``topic.prefix``, the name of the topic of statements.
        starts: First offset to read, by partition; the topic's first record where left out.

    Raises:
        UnknownDefault: The topic has records in several partitions, whose order is not known.
        InputError: There is no such topic, or the broker or the schema registry refuses.
        UnavailableError: The broker or the schema registry does not answer.
    """
    # Without that topic nothing is known, whatever is declared for the other one.
    asked = {"topic": connector, "topic_pattern": None, "missing_topic": "refuse"}
    log = KafkaLog(source.model_copy(update=asked))
    first, ends = log.log_start(), log.log_end()
    if len([each for each in first if ends[each] > first[each]]) > 1:
        reason = (
            f"topic `{connector}`, where the connector reports statements, has several partitions "
            "with records, whose order is not known: create it with one partition"
        )
        raise UnknownDefault(reason)
    gap = _gap(connector, starts, first, ends)
    begins = {
        each: first[each]
        if starts.get(each, 0) > ends[each]
        else max(first[each], starts.get(each, 0))
        for each in first
    }
    holding = {each: begin for each, begin in begins.items() if ends[each] > begin}
    captured = source.changes
    assert captured is not None  # only such a topic tells of new columns
    envelopes = envelopes_by(captured.registry)
    limit = max((ends[each] - first for each, first in holding.items()), default=0)
    records = log.read(holding, limit, {each: ends[each] for each in holding}) if holding else []
    schema, _, table = captured.table.partition(".")
    found = []
    for record in records:
        if record.value is None:
            continue
        try:
            envelope, _ = envelopes.open(record.value)
            found.append(_change_of(envelope, f'"{schema}"."{table}"'))
        except BadValue as error:
            gap = f"topic `{connector}`, offset {record.offset}, can't be decoded: {error}"
        except (AttributeError, KeyError, TypeError, ValueError):
            gap = (
                f"topic `{connector}`, offset {record.offset}, holds another record than that of a "
                "statement"
            )
    return Statements(found, ends, gap)


def _gap(topic: str, starts: Offsets, first: Offsets, ends: Offsets) -> str | None:
    for each, start in starts.items():
        if each not in first or start > ends[each]:
            return f"topic `{topic}`, where the connector reports statements, was created again"
        if start < first[each]:
            return (
                f"records of topic `{topic}`, where the connector reports statements, were deleted "
                f"before they were read (offsets {start} to {first[each] - 1}): set "
                "`retention.ms=-1`, and `cleanup.policy=delete`"
            )
    return None


def _change_of(envelope: Mapping[str, Any], table: str) -> SchemaChange:
    """Return a statement, with the definition of a table if that is reported with it."""
    origin: Mapping[str, Any] = envelope["source"]
    changes: Sequence[Mapping[str, Any]] = envelope.get("tableChanges") or []
    own = next((each for each in reversed(changes) if each["id"] == table), None)
    described = None if own is None else own["table"]
    definition = reported_definition(described) if described else None
    return SchemaChange(
        statement=str(envelope.get("ddl") or ""),
        columns=[] if definition is None else [*definition.columns],
        is_read=is_of_snapshot(origin) or origin.get("snapshot") == "incremental",
        gtid=str(origin.get("gtid") or ""),
        file=int(str(origin["file"]).rpartition(".")[2]),
        offset=int(origin["pos"]),
        kind="" if own is None else str(own["type"]),
        database=str(envelope.get("databaseName") or origin.get("db") or ""),
        definition=definition,
        at_ms=int(origin.get("ts_ms") or 0),
    )

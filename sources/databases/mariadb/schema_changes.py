"""Statements that changed a table's definition, as the connector reports them in their own topic.

Debezium writes each to the topic that has the name of ``topic.prefix``, before the first change of
a row that has the new definition.
https://debezium.io/documentation/reference/stable/connectors/mariadb.html#mariadb-schema-change-topic
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sources.common.conversion import BadValue
from sources.common.database_snapshot import BinlogSnapshot
from sources.config.kafka_source import KafkaSource
from sources.databases.captured_table import UnknownDefault
from sources.databases.mariadb.gtid import parse_gtids
from sources.decoding.changes.envelopes import AvroEnvelopes, Envelopes, JsonEnvelopes
from sources.decoding.changes.positions import is_of_snapshot
from sources.kafka.client import KafkaLog


class SchemaChange(NamedTuple):
    """Definition of a table after a statement.

    Attributes:
        statement: The statement, as it is in the binary log.
        columns: Names of the table's columns; empty if it was dropped.
        is_read: Whether the connector read the definition from the server as it began, so that
            ``statement`` is none that changed the table.
        gtid: GTID of the statement, such as ``0-1-129``; empty if there is none.
        file: Number of the binary log's file.
        offset: Position in the file.
    """

    statement: str
    columns: list[str]
    is_read: bool
    gtid: str
    file: int
    offset: int

    def is_in(self, snapshot: BinlogSnapshot) -> bool:
        """Return whether a snapshot was taken after it.

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


def read_schema_changes(source: KafkaSource, connector: str) -> list[SchemaChange]:
    """Return the definitions that a table had, and the statements that changed it, in order.

    Args:
        source: The topic of the table's changes; its broker and encoding are those of the topic
            that is read.
        connector: The connector's ``topic.prefix``, the name of that topic.

    Raises:
        UnknownDefault: The order of the topic's records is not known, or one can't be decoded.
        InputError: There is no such topic, or the broker or the schema registry refuses.
        UnavailableError: The broker or the schema registry does not answer.
    """
    asked = {"topic": connector, "topic_pattern": None}
    log = KafkaLog(source.model_copy(update=asked))
    starts, ends = log.log_start(), log.log_end()
    holding = {each: starts[each] for each in starts if ends[each] > starts[each]}
    if len(holding) > 1:
        reason = (
            f"topic `{connector}`, where the connector reports statements, has several partitions "
            "with records, whose order is not known: create it with one partition"
        )
        raise UnknownDefault(reason)
    captured = source.changes
    assert captured is not None  # only such a topic tells of new columns
    registry = captured.registry
    envelopes: Envelopes = JsonEnvelopes() if registry is None else AvroEnvelopes(registry)
    limit = max((ends[each] - first for each, first in holding.items()), default=0)
    records = log.read(holding, limit, {each: ends[each] for each in holding}) if holding else []
    schema, _, table = captured.table.partition(".")
    found = []
    for record in records:
        if record.value is None:
            continue
        try:
            envelope, _ = envelopes.open(record.value)
        except BadValue as error:
            reason = f"topic `{connector}`, offset {record.offset}, can't be decoded: {error}"
            raise UnknownDefault(reason) from None
        found += _changes_of(envelope, f'"{schema}"."{table}"')
    return found


def _changes_of(envelope: Mapping[str, Any], table: str) -> list[SchemaChange]:
    origin: Mapping[str, Any] = envelope["source"]
    changes: Sequence[Mapping[str, Any]] = envelope.get("tableChanges") or []
    return [
        SchemaChange(
            statement=str(envelope.get("ddl") or ""),
            columns=[str(column["name"]) for column in (each["table"] or {}).get("columns", [])],
            is_read=is_of_snapshot(origin) or origin.get("snapshot") == "incremental",
            gtid=str(origin.get("gtid") or ""),
            file=int(str(origin["file"]).rpartition(".")[2]),
            offset=int(origin["pos"]),
        )
        for each in changes
        if each["id"] == table
    ]

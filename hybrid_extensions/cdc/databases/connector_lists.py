"""Whether a connector still captures a table: include and exclude lists, prefix, publication.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.cdc.databases.connector_settings import left_out
from hybrid_extensions.cdc.databases.kafka_connect import ask_connect
from hybrid_extensions.cdc.databases.name_patterns import is_listed
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions

_DEFAULT_PUBLICATION = "dbz_publication"


class Capture(NamedTuple):
    """How a connector captures a table, as far as its configuration tells.

    Attributes:
        prefix: Prefix of the names of its topics; None if it is not known.
        problem: Why changes of the table no longer arrive, as a predicate of the table; None if
            they do, or that is not known.
        is_told: Whether the prefix is from the connector's configuration, not from the topic's
            name.
        reports_statements: Whether it reports statements that change definitions; True if not
            known.
        publication: The publication of PostgreSQL that it reads; None if it is not known.
    """

    prefix: str | None
    problem: str | None = None
    is_told: bool = False
    reports_statements: bool = True
    publication: str | None = None


def find_capture(table: CapturedTable, topic: KafkaSource, before: str | None = None) -> Capture:
    """Ask Kafka Connect how the declared connector captures a table; raises nothing.

    Without a connector, or if Kafka Connect does not answer, only the prefix is known, from the
    name of the topic of changes.

    Args:
        table: The table; its options may name the connector.
        topic: The topic of its changes.
        before: Prefix by the connector's configuration in an earlier look; None if it never was
            known.
    """
    ending, url = f".{table.name}", table.options.connector
    named = topic.topic if isinstance(topic.topic, str) else ""
    by_name = Capture(named.removesuffix(ending) if named.endswith(ending) else None)
    if url is None:
        return by_name
    try:
        config: Mapping[str, Any] = ask_connect(url, "/config")
    except (OSError, ValueError):
        return by_name
    prefix = _written(config, "topic.prefix")
    return Capture(
        prefix=prefix or by_name.prefix,
        problem=_problem(config, table, prefix, before),
        is_told=prefix is not None,
        reports_statements=str(config.get("include.schema.changes")).lower() != "false",
        publication=_publication(config),
    )


def publication_of(options: SnapshotOptions) -> str | None:
    """Return the publication of PostgreSQL that the declared connector reads.

    None if no connector is declared, or Kafka Connect does not tell it; raises nothing. It is
    ``dbz_publication`` if the configuration names none.

    Args:
        options: The declared snapshot.
    """
    if options.connector is None:
        return None
    try:
        return _publication(ask_connect(options.connector, "/config"))
    except (OSError, ValueError):
        return None


def _publication(config: Mapping[str, Any]) -> str | None:
    if "publication.name" not in config:
        return _DEFAULT_PUBLICATION
    return _written(config, "publication.name")


def _problem(
    config: Mapping[str, Any], table: CapturedTable, prefix: str | None, before: str | None
) -> str | None:
    """Return why changes of a table no longer arrive, as a predicate of the table."""
    written = {name: str(value) for name, value in config.items() if value is not None}
    for misset in left_out(written):
        return f"lacks changes: `{misset.name}` of the connector is `{misset.value}`"
    if None not in (prefix, before) and prefix != before:
        return (
            f"is captured in another topic: `topic.prefix` of the connector is `{prefix}`, and was "
            f"`{before}`"
        )
    schema, _ = table.parts
    of_schema = table.options.kind.schema
    for field, name, is_wanted in (
        (f"{of_schema}.include.list", schema, True),
        (f"{of_schema}.exclude.list", schema, False),
        ("table.include.list", table.name, True),
        ("table.exclude.list", table.name, False),
    ):
        if (listed := written.get(field)) and is_listed(name, listed) is (not is_wanted):
            return f"is no longer captured: `{field}` of the connector is `{listed}`"
    return None


def _written(config: Mapping[str, Any], name: str) -> str | None:
    """Return a setting as written; None for a reference that only the Connect worker resolves."""
    value = config.get(name)
    return None if not value or "${" in str(value) else str(value)

"""A starter for tables of PostgreSQL: a pipeline for each, the connector, and the topics."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from sources.common.fields import check_name
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.sink import Sink
from sources.databases.captured_table import DatabaseTable
from sources.databases.postgres.capture import require_capturable
from sources.databases.postgres.tables import (
    connect_to,
    describe_table,
    require_key,
)
from sources.errors import InputError

_PIPELINE = """\
# Captures table {table}. All fields: docs/pipeline.md; how it works: docs/cdc.md.
name: {name}
event_time: _committed_at
sources:
  - name: snapshot
    type: files
    path: snapshot/{name}/*.parquet
    format: parquet
    snapshot: {{dsn: {dsn}, slot: {slot}}}
  - name: changes
    type: kafka
    topic: {topic}
    bootstrap_servers: {servers}
    format: debezium
    table: {table}
    schema:
{columns}{ignored}    include:
      _position: position
      _lsn: lsn
      _transaction: transaction
      _committed_at: committed_at
      _deleted: deleted
      _unchanged: unchanged
    on_truncate: follow
transform: {module}:rows
sink:
  path: tables/{name}
  mode: merge
  key: [{key}]
  sequence: _position
  deleted: _deleted
  unchanged: _unchanged
state: state
"""
_TRANSFORM = '''\
"""Transform of the rows, the same for snapshot and changes."""

from pyspark.sql import DataFrame


def rows(rows: DataFrame) -> DataFrame:
    """Return all rows unchanged."""
    return rows
'''
_TOPICS = """\
#!/bin/sh
# Topics of the captured tables. Changes must not expire before they are read.
set -e
{commands}
"""


@dataclass(frozen=True)
class CaptureOptions:
    """Options of a starter that captures tables.

    Attributes:
        name: Name of the connector, its slot and publication, and prefix of the topics.
        dsn: Connection string of libpq, without a password.
        tables: Names of the form ``schema.table``.
        servers: Brokers of the topics, or ``local``.
    """

    name: str
    dsn: str
    tables: Sequence[str]
    servers: str = "local"


def start_capture(
    folder: Path, options: CaptureOptions
) -> tuple[list[LoadedPipeline], list[Path], list[str]]:
    """Write the files that capture tables of a PostgreSQL database into a folder.

    Either all files are written, or none. Nothing is created in the database or in Kafka.

    Args:
        folder: Folder that exists, to write to.
        options: Name, database and tables.

    Returns:
        A pipeline for each table; the paths of all files; and sentences about what is not captured.

    Raises:
        InputError: A name is not valid, the database refuses, there is no such table, it can't be
            captured, a file exists, or a pipeline would not be valid.
        UnavailableError: The database does not answer.
    """
    check_name(options.name)
    if not options.tables:
        message = "`--postgres` needs the tables to capture."
        raise InputError(message, "Name each, such as `--tables public.orders`.", field="tables")
    warnings: list[str] = []
    with connect_to(options.dsn) as connection:
        tables = [describe_table(connection, each) for each in options.tables]
        for table in tables:
            sink = {"path": "out", "mode": "merge", "key": [*require_key(table)]}
            if not table.is_partitioned:
                warnings += require_capturable(
                    connection,
                    table.name,
                    table.columns,
                    Sink.model_validate(sink),
                    truncates=False,
                )
            warnings += [
                f"Column `{name}` of table `{table.name}` is left out: {why}."
                for name, why in table.left_out.items()
            ]
    names = _pipeline_names(tables)
    made = {
        folder / f"{name}.yaml": _pipeline(name, table, options)
        for name, table in zip(names, tables, strict=True)
    }
    others = {
        folder / f"{options.name}_transform.py": _TRANSFORM,
        folder / f"{options.name}_connector.json": _connector(options, tables),
        folder / f"{options.name}_topics.sh": _topics(options),
    }
    if there := [path for path in [*made, *others] if path.exists()]:
        message = f"File {there[0]} exists already; nothing was written."
        hint = "Choose another name, or move the file away."
        raise InputError(message, hint, file=str(there[0]))
    for path, text in {**made, **others}.items():
        path.write_text(text)
    try:
        return [load_pipeline(path) for path in made], [*made, *others], warnings
    except InputError:
        for path in [*made, *others]:
            path.unlink()
        raise


def next_steps(options: CaptureOptions, loaded: Sequence[LoadedPipeline]) -> str:
    """Return the commands that follow, one a line."""
    runs = "\n".join(f"  PGPASSWORD=… hybrid run {each.path}" for each in loaded)
    post = (
        f"curl -X POST -H 'Content-Type: application/json' --data @{options.name}_connector.json "
        "http://<connect>:8083/connectors"
    )
    return f"Then:\n  sh {options.name}_topics.sh\n  {post}\n{runs}"


def _pipeline_names(tables: Sequence[DatabaseTable]) -> list[str]:
    """Return a name for each table's pipeline: the table's, with its schema if two are the same."""
    short = [table.name.partition(".")[2].lower() for table in tables]
    return [
        name if short.count(name) == 1 else table.name.replace(".", "_").lower()
        for name, table in zip(short, tables, strict=True)
    ]


def _pipeline(name: str, table: DatabaseTable, options: CaptureOptions) -> str:
    columns = "".join(f"      {name}: {json.dumps(kind)}\n" for name, kind in table.columns.items())
    ignored = "".join(f"      - {name} # {why}\n" for name, why in table.left_out.items())
    return _PIPELINE.format(
        name=name,
        table=table.name,
        dsn=json.dumps(options.dsn),
        slot=options.name,
        topic=f"{options.name}.{table.name}",
        servers=options.servers,
        columns=columns,
        ignored=f"    ignored_columns:\n{ignored}" if ignored else "",
        module=f"{options.name}_transform",
        key=", ".join(table.key),
    )


def _connector(options: CaptureOptions, tables: Sequence[DatabaseTable]) -> str:
    """Return the connector as Kafka Connect's REST interface takes it."""
    where = conninfo_to_dict(options.dsn)
    converter = "org.apache.kafka.connect.json.JsonConverter"
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": str(where.get("host", "localhost")),
        "database.port": str(where.get("port", 5432)),
        "database.user": str(where.get("user", "")),
        # https://kafka.apache.org/documentation/#connect_configproviders: an EnvVarConfigProvider.
        "database.password": "${env:PGPASSWORD}",
        "database.dbname": str(where.get("dbname", "")),
        "topic.prefix": options.name,
        "slot.name": options.name,
        "publication.name": options.name,
        "publication.autocreate.mode": "filtered",
        "table.include.list": ",".join(table.name for table in tables),
        "snapshot.mode": "no_data",
        "skipped.operations": "none",
        "decimal.handling.mode": "string",
        "status.update.interval.ms": "1000",
        "key.converter": converter,
        "value.converter": converter,
        "value.converter.schemas.enable": "true",
        "value.converter.replace.null.with.default": "false",
    }
    if any(table.is_partitioned for table in tables):
        config["publish.via.partition.root"] = "true"
    return json.dumps({"name": options.name, "config": config}, indent=2) + "\n"


def _topics(options: CaptureOptions) -> str:
    """Return the script that creates the topics."""
    servers = "localhost:9092" if options.servers == "local" else options.servers
    commands = [
        f"kafka-topics.sh --bootstrap-server {shlex.quote(servers)} --create --if-not-exists "
        f"--topic {shlex.quote(f'{options.name}.{table}')} --partitions 3 --replication-factor 1 "
        "--config retention.ms=-1 --config cleanup.policy=delete"
        for table in options.tables
    ]
    return _TOPICS.format(commands="\n".join(commands))

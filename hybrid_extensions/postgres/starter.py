"""Starter of `hybrid init` for PostgreSQL: tables, connector settings and parts of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg.conninfo import conninfo_to_dict

from hybrid_extensions.cdc.capture_starter import CapturedKind, CaptureOptions
from hybrid_extensions.cdc.databases.captured_table import DatabaseTable
from hybrid_extensions.postgres.capture_checks import AGAIN, require_capturable
from hybrid_extensions.postgres.tables import connect_to, describe_table
from sources.config.table.sink import Sink
from sources.errors import InputError


class Postgres(CapturedKind):
    """PostgreSQL for `hybrid init`: its connector reads a replication slot."""

    include: Mapping[str, str] = {
        "_position": "position",
        "_lsn": "lsn",
        "_transaction": "transaction",
        "_committed_at": "committed_at",
        "_deleted": "deleted",
        "_unchanged": "unchanged",
    }
    changes: Mapping[str, str] = {"on_truncate": "follow"}
    sink: Mapping[str, str] = {"unchanged": "_unchanged"}

    def snapshot(self, options: CaptureOptions) -> dict[str, str]:
        """Return the fields of ``snapshot``: address, slot, and the connector if it is known."""
        return {"dsn": options.dsn, "slot": options.name, **options.connector}

    def tables(self, options: CaptureOptions) -> tuple[list[DatabaseTable], list[str]]:
        """Return the tables with columns and keys, and sentences about what is not captured.

        Raises:
            InputError: The database refuses, there is no such table, or it can't be captured.
            UnavailableError: The database does not answer.
        """
        warnings: list[str] = []
        with connect_to(options.dsn, "--postgres", "init") as connection:
            tables = [describe_table(connection, each) for each in options.tables]
            for table in tables:
                if not table.is_partitioned:
                    sink = {"path": "out", "mode": "merge", "key": table.key or ["?"]}
                    try:
                        warnings += require_capturable(
                            connection,
                            table.name,
                            table.columns,
                            Sink.model_validate(sink),
                            truncates=False,
                        )
                    except InputError as error:
                        # There is neither a snapshot yet, nor a pipeline.
                        hint = error.hint.replace(AGAIN, "then run `hybrid init` again.")
                        raise InputError(error.message, hint, **error.fields) from None
        return tables, warnings

    def connector(self, options: CaptureOptions, tables: Sequence[DatabaseTable]) -> dict[str, str]:
        """Return the settings of the connector, by name, that only PostgreSQL has; asks nobody.

        The password is not among them.
        """
        where = conninfo_to_dict(options.dsn)
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": str(where.get("host", "localhost")),
            "database.port": str(where.get("port", 5432)),
            "database.user": str(where.get("user", "")),
            "database.dbname": str(where.get("dbname", "")),
            "slot.name": options.name,
            "publication.name": options.name,
            "publication.autocreate.mode": "filtered",
            "decimal.handling.mode": "string",
            "status.update.interval.ms": "1000",
        }
        if any(table.is_partitioned for table in tables):
            config["publish.via.partition.root"] = "true"
        return config


STARTER = Postgres()

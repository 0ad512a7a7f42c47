"""A database of its own in a real MariaDB or MySQL, and tables of it as pipelines declare them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, OpenTable
from hybrid_extensions.servers.databases.mysql_server import USER, MySqlServer
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink

COLUMNS = {"id": "bigint", "v": "string"}


class Case:
    """A database of its own in a real server."""

    def __init__(self, server: MySqlServer) -> None:
        self.server = server
        self.name = f"shop_{uuid.uuid4().hex[:8]}"
        server.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        os.environ["MYSQL_PWD"] = server.password

    def execute(self, *statements: str) -> None:
        with self.server.connect(self.name) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """A prepared transaction with a row of table `t`, which is in the log already."""
        with self.server.connect(self.name) as connection, connection.cursor() as cursor:
            cursor.execute("XA START 'x'")
            cursor.execute("INSERT INTO t VALUES (1, 'x')")
            cursor.execute("XA END 'x'")
            cursor.execute("XA PREPARE 'x'")
            try:
                yield
            finally:
                cursor.execute("XA ROLLBACK 'x'")

    def table(
        self,
        name: str = "t",
        columns: Mapping[str, str] = COLUMNS,
        *,
        key: Sequence[str] = ("id",),
        user: str = USER,
        **options: Any,
    ) -> CapturedTable:
        return CapturedTable(
            source="snapshot",
            name=f"{self.name}.{name}",
            options=SnapshotOptions(dsn=self.server.dsn(self.name, user), **options),
            columns=columns,
            ignored=[],
            sink=Sink(path="out", mode="merge", key=list(key)),
        )


def read(table: OpenTable, workers: int = 3) -> list[dict[str, Any]]:
    """All rows of a table, as several readers deliver its chunks in turns."""
    readers = table.readers(workers)
    division = table.divide()
    return [
        row
        for chunk in range(len(division.bounds) + 1)
        for batch in readers[chunk % len(readers)].rows(division, chunk)
        for row in batch.to_pylist()
    ]

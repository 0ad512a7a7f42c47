"""A captured table in a Delta table and a database's rows in DuckDB, without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.repair.asked_keys import read_asked
from hybrid_extensions.repair.compared_rows import ENVELOPE, SOURCE, read_deletes, read_target
from hybrid_extensions.repair.differences import Asked, Differences, find_differences
from hybrid_extensions.repair.repairable_table import RepairedTable
from hybrid_extensions.repair.rewrite import Rewritten, rewrite
from sources.common.database_snapshot import PostgresSnapshot
from sources.config.source.file_source import FileSource
from sources.planning.context import PipelineContext
from sources.storage.tables.delta import delta_table
from spark_jobs.table.kept_deletes import append_deletes
from tests.minimal import minimal_pipeline

COLUMNS = {"id": "bigint", "v": "string"}
VERSION = f"{100:016x}{199:016x}:"
"""Position of the repair: of a log whose last commit before 200 ended at 100."""
LOG_END = PostgresSnapshot(lsn=900, xmin=1, xmax=1, in_progress=[], taken_ms=0)
Row = tuple[Any, ...]


def at(before: int, own: int) -> str:
    """Position of a change: end of the transaction before its own, and its place."""
    return f"{before:016x}{own:016x}"


class RepairCase:
    """A pipeline that captures a table with the columns ``id`` and ``v``.

    Args:
        folder: Where it is.
        rules: Its rules.
        on_bad_record: What happens to changes that can't be read.
        sink: Further fields of the sink, or other ones.
    """

    def __init__(
        self,
        folder: Path,
        rules: Mapping[str, str] | None = None,
        on_bad_record: str = "fail",
        **sink: Any,
    ) -> None:
        usual = {"mode": "merge", "sequence": "_position", "deleted": "_deleted"}
        loaded = minimal_pipeline(
            folder,
            {
                "name": "snapshot",
                "type": "files",
                "path": "snapshot/*.parquet",
                "format": "parquet",
                "snapshot": {"dsn": "slotted://db/shop", "slot": "shop"},
            },
            {
                "name": "changes",
                "type": "kafka",
                "format": "debezium",
                "topic": "shop.public.orders",
                "bootstrap_servers": "none:9092",
                "table": "public.orders",
                "schema": COLUMNS,
                "on_bad_record": on_bad_record,
                "include": {
                    "_position": "position",
                    "_lsn": "lsn",
                    "_transaction": "transaction",
                    "_committed_at": "committed_at",
                    "_deleted": "deleted",
                },
            },
            event_time="_committed_at",
            sink={"path": "out", "key": ["id"], **usual, **sink},
            rules=rules or {},
        )
        (folder / "transforms.py").write_text("def identity(rows):\n    return rows\n")
        generation = loaded.open_generation(create=True)
        assert generation is not None
        source, topic = loaded.pipeline.sources[0], loaded.pipeline.topics[0]
        assert isinstance(source, FileSource)
        self.is_soft = "deletes" in sink
        parts = {name: part for name, part in topic.include.items() if name in self._names}
        self.table = RepairedTable(
            PipelineContext(loaded, generation),
            CapturedTable.of(loaded, source, topic),
            {name: name for name in COLUMNS},
            parts,
            topic,
            loaded.target,
        )
        self.scratch = generation.folder("scratch")

    @property
    def _names(self) -> list[str]:
        return ["id", "v", "_position", "_lsn", *(["_deleted"] if self.is_soft else [])]

    def write(self, *rows: Row) -> None:
        """Add rows to the target, in a file of their own."""
        kinds = [pa.int64(), pa.string(), pa.string(), pa.int64(), pa.bool_()]
        fields = list(zip(self._names, kinds, strict=False))
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(values, kind) for (_, kind), values in zip(fields, columns, strict=True)]
        made = pa.table(arrays, schema=pa.schema(fields))
        write_deltalake(self.table.target.url, made, mode="append")

    def delete(self, key: int, position: str) -> None:
        """Keep a delete."""
        assert self.table.deletes is not None
        kept = pa.table({"id": pa.array([key], pa.int64()), "_position": [position]})
        append_deletes(self.table.deletes, kept)

    def rows(self) -> list[Row]:
        """Key, value, position and so on of the target's rows."""
        found = DeltaTable(self.table.target.url).to_pyarrow_table().select(self._names)
        return sorted(tuple(row.values()) for row in found.to_pylist())

    def deletes(self) -> list[Row]:
        """Keys and positions of the kept deletes."""
        assert self.table.deletes is not None
        found = DeltaTable(self.table.deletes.url).to_pyarrow_table()
        return sorted(tuple(row.values()) for row in found.to_pylist())

    def compare(
        self,
        connection: duckdb.DuckDBPyConnection,
        database: Sequence[tuple[int, str | None]],
        where: str | None = None,
        keys: str | None = None,
    ) -> Differences:
        """Compare the target with rows of a database."""
        connection.execute("CREATE SCHEMA audit")
        if keys is not None:
            read_asked(connection, self.table, keys)
        connection.execute(f"CREATE TABLE {SOURCE} (id BIGINT, v VARCHAR)")
        for row in database:
            connection.execute(f"INSERT INTO {SOURCE} VALUES (?, ?)", row)
        envelope = ", ".join(f"NULL AS {name}" for name in self.table.parts if name != "_lsn")
        connection.execute(f"CREATE TABLE {ENVELOPE} AS SELECT {envelope}, 300 AS _lsn")
        read_target(connection, self.table, delta_table(self.table.target))
        read_deletes(connection, self.table)
        asked = Asked(where, keys is not None)
        return find_differences(connection, self.table, VERSION, LOG_END, asked)

    def repair(self, connection: duckdb.DuckDBPyConnection, name: str = "r1") -> Rewritten:
        """Write what the comparison has found."""
        return rewrite(connection, self.table, VERSION, name, self.scratch.folder(name))

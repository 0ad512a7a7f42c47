"""A small pipeline over two file sources, its input and its target, for tests of the audit."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from hybrid_extensions.audit.run import audit
from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline

COLUMNS = {"at": "timestamp", "id": "bigint", "origin": "string", "delay": "double", "seats": "int"}
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", tz="UTC")),
        ("id", pa.int64()),
        ("origin", pa.string()),
        ("delay", pa.float64()),
        ("seats", pa.int32()),
    ]
)
Row = dict[str, Any]


def row(number: int, **changed: Any) -> Row:
    """A row of the input; its key is id and origin."""
    values = {
        "at": datetime(2013, 1, 1, tzinfo=UTC) + timedelta(hours=number),
        "id": number,
        "origin": "JFK",
        "delay": number / 3,
        "seats": 100 + number,
    }
    return {**values, **changed}


@dataclass(frozen=True)
class Case:
    """A pipeline in a folder."""

    folder: Path

    def history(self, rows: list[Row], name: str = "part-0.parquet") -> None:
        """Write a Parquet file of the first source."""
        (self.folder / "history").mkdir(exist_ok=True)
        table = pa.Table.from_pylist(rows, SCHEMA)
        pq.write_table(table, self.folder / "history" / name)

    def late(self, rows: list[Row]) -> None:
        """Write the JSON lines of the second source."""
        lines = [json.dumps({**row, "at": row["at"].isoformat()}) + "\n" for row in rows]
        (self.folder / "late.json").write_text("".join(lines))

    def target(self, rows: list[Row], schema: pa.Schema = SCHEMA) -> None:
        """Write the Delta table."""
        write_deltalake(self.folder / "table", pa.Table.from_pylist(rows, schema))

    def target_again(self, rows: list[Row], schema: pa.Schema = SCHEMA) -> None:
        """Write the Delta table in place of the one that stands there."""
        shutil.rmtree(self.folder / "table")
        self.target(rows, schema)

    def mapped_target(self, rows: list[Row]) -> None:
        """Write the Delta table with other column names in its files than in its schema."""
        table = pa.Table.from_pylist(rows, SCHEMA)
        physical = [f"col-{at}" for at in range(len(SCHEMA))]
        file = self.folder / "table" / "part-0.parquet"
        (file.parent / "_delta_log").mkdir(parents=True)
        pq.write_table(table.rename_columns(physical), file)
        kinds = {"bigint": "long", "int": "integer"}
        fields = [
            {
                "name": name,
                "type": kinds.get(kind, kind),
                "nullable": True,
                "metadata": {
                    "delta.columnMapping.id": at + 1,
                    "delta.columnMapping.physicalName": physical[at],
                },
            }
            for at, (name, kind) in enumerate(COLUMNS.items())
        ]
        mapping = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "5"}
        actions = [
            {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
            {
                "metaData": {
                    "id": "00000000-0000-0000-0000-000000000000",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                    "partitionColumns": [],
                    "configuration": mapping,
                }
            },
            {
                "add": {
                    "path": file.name,
                    "partitionValues": {},
                    "size": file.stat().st_size,
                    "modificationTime": 0,
                    "dataChange": True,
                }
            },
        ]
        log = file.parent / "_delta_log" / f"{0:020}.json"
        log.write_text("\n".join(map(json.dumps, actions)))

    def sql(self, text: str) -> dict[str, Any]:
        """Write the audit's SQL; returns the declaration of it."""
        (self.folder / "audit.sql").write_text(text)
        return {"sql": "audit.sql"}

    def loaded(self, **changed: Any) -> LoadedPipeline:
        """The pipeline, with some of its declaration changed."""
        history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
        late = {"type": "files", "name": "late", "path": "*.json", "format": "json"}
        declared = {
            "name": "flights",
            "sources": [history, {**late, "schema": COLUMNS}],
            "event_time": "at",
            "key": ["id", "origin"],
            "transform": "flights:events",
            "sink": {"path": "table", "mode": "append", "key": ["id", "origin"]},
            "state": "state",
            **changed,
        }
        return LoadedPipeline(self.folder / "flights.yaml", Pipeline.model_validate(declared))

    def audit(self, **changed: Any) -> AuditReport:
        """The report on it."""
        return audit(self.loaded(**changed))


def wrong(report: AuditReport) -> dict[str, int]:
    """The counts that should be 0, without those that are."""
    kinds = ("missing", "duplicated", "different", "unexpected")
    return {kind: getattr(report, kind) for kind in kinds if getattr(report, kind)}

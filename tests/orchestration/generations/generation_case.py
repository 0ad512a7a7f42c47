"""Generations without Spark: the test writes the tables and ends that runs would leave."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sources.common.positions import EndPosition
from sources.common.times import to_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.hybrid import SwitchState
from sources.kept_definitions import keep_definition
from sources.serving import OWNER, target_of
from sources.state.generation import Generation
from sources.storage.tables.delta import delta_table
from spark_jobs.table.commit_position import CommitPositions
from spark_jobs.table.ownership.belonging import TargetSide
from spark_jobs.table.ownership.target_guard import confirm_start, epoch_transaction
from spark_jobs.table.ownership.target_records import announce_start
from tests.minimal import minimal_declaration
from tests.services.lake import Edit

END = datetime(2024, 1, 1, tzinfo=UTC)
ONE = "from pipeline_words import WORD\n\n\ndef features(rows):\n    return rows\n"


class GenerationCase:
    """A pipeline over files alone, so that nothing goes on by itself."""

    def __init__(self, folder: Path, move: Edit = lambda _: None) -> None:
        self.folder = folder
        self._move = move
        (folder / "transforms.py").write_text(ONE)
        (folder / "pipeline_words.py").write_text("WORD = 'old'\n")
        self.write()

    def write(self, **changes: Any) -> None:
        columns = {"id": "bigint", "at": "timestamp", "v": "bigint"}
        document = minimal_declaration(
            {
                "type": "files",
                "name": "history",
                "format": "json",
                "schema": columns,
                "path": "in/*.json",
            },
            **{"name": "events", "key": ["id"], "transform": "transforms:features", **changes},
        )
        self._move(document)
        (self.folder / "events.yaml").write_text(yaml.safe_dump(document))

    @property
    def loaded(self) -> LoadedPipeline:
        return load_pipeline(self.folder / "events.yaml")

    def run(
        self, values: dict[int, int], end: datetime = END, at: datetime | None = None
    ) -> Generation:
        """What a run of the newest generation leaves: rows by id, and an end of history.

        With ``at``, the table has the event time, too.
        """
        loaded = self.loaded
        generation = loaded.open_generation(create=True)
        assert generation is not None
        keep_definition(loaded, generation)
        target = target_of(loaded, generation.name)
        rows = pa.table({"id": list(values), "v": list(values.values())})
        if at is not None:
            times = pa.array([at] * len(rows), pa.timestamp("us", "UTC"))
            rows = rows.append_column("at", times)
        side = TargetSide.of(loaded, generation)
        record = announce_start(side)
        DeltaTable.create(
            target.url,
            rows.schema,
            configuration={OWNER: generation.info.transaction_id},
            raise_if_key_not_exists=False,
            commit_properties=epoch_transaction(side, record),
            storage_options=target.documents.delta_options,
        )
        confirm_start(side, record)
        query = json.dumps({"id": self.query(generation)}).encode()
        generation.checkpoint.replace_bytes("metadata", query)
        self.append(generation, rows, 0)
        position = EndPosition(
            source="history",
            event_time_ms=to_ms(end),
            complete_through_ms=to_ms(end),
            event_times="exact",
            splits=1,
            rows=len(rows),
        )
        SwitchState(loaded.pipeline.hybrid_source(), generation).finish(position)
        return generation

    def query(self, generation: Generation) -> str:
        return f"query-of-{generation.name}"

    def append(self, generation: Generation, rows: pa.Table, batch: int) -> None:
        """A micro-batch of the generation's stream."""
        target = target_of(self.loaded, generation.name)
        generation.checkpoint.replace_bytes(f"offsets/{batch}", b"v1\n{}\n-")
        done = CommitProperties(
            app_transactions=[Transaction(self.query(generation), batch)],
            custom_metadata={"userMetadata": CommitPositions(generation, ["history"]).of(batch)},
        )
        options = target.documents.delta_options
        write_deltalake(
            target.url, rows, mode="append", commit_properties=done, storage_options=options
        )
        generation.checkpoint.replace_bytes(f"commits/{batch}", b"v1\n{}")

    def seen(self) -> dict[int, int]:
        """What readers of the target see."""
        table = delta_table(self.loaded.target).to_pyarrow_table()
        assert len(set(table["id"].to_pylist())) == len(table)
        return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))

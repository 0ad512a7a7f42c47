"""A table and its topic, with what DuckDB computes from all input."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from hybrid_extensions.adopt.position import Asked
from sources.config.loader import LoadedPipeline
from sources.storage.folder import Folder
from spark_jobs.table.commit_log import Commit, CommitLog
from tests.e2e.case import Case, as_json, moment
from tests.e2e.in_session import run_live

COMMITS = Asked()


class AdoptCase(Case):
    """The pipeline of a case; what is produced is kept as raw input, too."""

    def produce(self, numbers: Iterable[int] = range(500, 2000), *args: Any, **named: Any) -> None:
        every = list(numbers)
        with (self.folder / "produced.jsonl").open("a") as raw:
            raw.writelines(f"{as_json(n)}\n" for n in every)
        super().produce(every, *args, **named)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def write_table(self, numbers: Iterable[int], **how: Any) -> None:
        """Rows that another tool appends to the target; they are raw input, too."""
        every = list(numbers)
        with (self.folder / "produced.jsonl").open("a") as raw:
            raw.writelines(f"{as_json(n)}\n" for n in every)
        write_deltalake(str(self.out), rows(every), mode="append", **how)

    def lose_state(self) -> None:
        shutil.rmtree(self.folder / "state")

    def commits(self) -> list[Commit]:
        log = CommitLog(Folder(self.out))
        return log.between(-1, DeltaTable(str(self.out)).version())

    def require_exact(self) -> None:
        """The table has what DuckDB computes from history's files and all that was produced."""
        history = f"SELECT id, \"at\", v FROM read_parquet('{self.folder}/in/*.parquet') UNION ALL "
        if not (self.folder / "in").exists():
            history = ""
        with duckdb.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            types = "{id: 'BIGINT', \"at\": 'TIMESTAMPTZ', v: 'DOUBLE'}"
            produced = f"'{self.folder}/produced.jsonl', format = 'newline_delimited'"
            raw = f"SELECT * FROM read_json({produced}, columns = {types})"
            connection.execute(f"CREATE TABLE expected AS SELECT DISTINCT * FROM ({history}{raw})")
            found = DeltaTable(str(self.out)).to_pyarrow_table(columns=["id", "at", "v"])
            connection.register("found", found)
            for left, right in (("expected", "found"), ("found", "expected")):
                query = f"SELECT * FROM {left} EXCEPT ALL SELECT * FROM {right} LIMIT 5"
                assert connection.sql(query).fetchall() == [], f"in {left}, not in {right}"


def rows(numbers: Iterable[int]) -> pa.Table:
    """Events as rows."""
    every = list(numbers)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "at": pa.array([moment(n) for n in every], pa.timestamp("us", "UTC")),
            "v": pa.array([n / 2 for n in every], pa.float64()),
        }
    )


def only_topic(document: dict[str, Any]) -> None:
    """A topic with declared columns is the only source."""
    live = document["sources"].pop()
    live["columns"] = {"id": "bigint", "at": "timestamp", "v": "double"}
    document["sources"] = [{**live, "start": "earliest"}]


def merged(document: dict[str, Any]) -> None:
    """Rows are merged by key."""
    document["sink"]["mode"] = "merge"


def both(*edits: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        for each in edits:
            each(document)

    return edit


def go_on(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """The live run until it has read all."""
    run_live(spark, loaded)

"""Two pipelines in a row: files into the table of the first, that table into windows or rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from deltalake import DeltaTable

from sources.config.loader import LoadedPipeline, load_pipeline
from tests.e2e.case import HOURLY_SQL, SMALL, TRANSFORMS, as_json, moment

COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}


class TwoPipelines:
    """Both in one folder: `first` reads files and a folder that fills, `second` follows its table.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "transforms.py").write_text(TRANSFORMS)
        (folder / "hourly.sql").write_text(HOURLY_SQL)

    def write_history(self, numbers: Iterable[int]) -> None:
        """One more Parquet file of the first pipeline's history."""
        (self.folder / "in").mkdir(exist_ok=True)
        ids = list(numbers)
        at = pa.array([moment(n) for n in ids], pa.timestamp("us", "UTC"))
        table = pa.table({"id": pa.array(ids, pa.int64()), "at": at, "v": [n / 2 for n in ids]})
        pq.write_table(table, self.folder / "in" / f"{ids[0]:06d}.parquet")

    def arrive(self, numbers: Iterable[int]) -> None:
        """One more file in the folder that the first pipeline watches, as a whole."""
        inbox = self.folder / "inbox"
        inbox.mkdir(exist_ok=True)
        ids = list(numbers)
        hidden = inbox / f".{ids[0]:06d}.json"
        hidden.write_text("".join(f"{as_json(n)}\n" for n in ids))
        hidden.rename(inbox / hidden.name.removeprefix("."))

    def write_thousand(self) -> None:
        """A thousand rows: 900 of history in three files, and 100 that arrived."""
        for begin in (0, 300, 600):
            self.write_history(range(begin, begin + 300))
        self.arrive(range(900, 1000))

    def first(self, **more: Any) -> LoadedPipeline:
        """The first pipeline; it appends every row as it is."""
        history = {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
        inbox = {**history, "name": "inbox", "path": "inbox", "format": "json"}
        watched = {**inbox, "schema": COLUMNS, "discovery_interval": "100 ms"}
        sink = {"path": "rows", "mode": "append", "key": ["id"]}
        return self._declare("first", [history, watched], "identity", sink, **more)

    def second(self, *, windows: bool = True, **more: Any) -> LoadedPipeline:
        """The second one: windows over the rows of the first, or these rows again."""
        table = {"name": "rows", "type": "table", "pipeline": "first.yaml"}
        table |= {"discovery_interval": "100 ms"}
        if not windows:
            sink = {"path": "copied", "mode": "append", "key": ["id"]}
            return self._declare("second", [table], "identity", sink, **more)
        sink = {"path": "windows", "mode": "merge", "key": ["start"]}
        audit = {"sql": "hourly.sql"}
        return self._declare("second", [table], "hourly", sink, audit=audit, **more)

    def third(self, **more: Any) -> LoadedPipeline:
        """A third one: windows over the rows that the second one has copied."""
        table = {"name": "copied", "type": "table", "pipeline": "second.yaml"}
        table |= {"discovery_interval": "100 ms"}
        sink = {"path": "windows", "mode": "merge", "key": ["start"]}
        audit = {"sql": "hourly.sql"}
        return self._declare("third", [table], "hourly", sink, audit=audit, **more)

    def compact(self) -> None:
        """Write the rows of the first table again, in fewer files."""
        assert DeltaTable(self.folder / "rows").optimize.compact()["numFilesRemoved"] > 0

    def differences(self, loaded: LoadedPipeline) -> int:
        """How many rows of the second table are not those of the files, or the other way round.

        DuckDB reads all raw input of the first pipeline.
        """
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            columns = "{'id': 'BIGINT', 'at': 'TIMESTAMPTZ', 'v': 'DOUBLE'}"
            parts = (
                f"read_parquet('{self.folder}/in/*.parquet')",
                f"read_json('{self.folder}/inbox/*.json', columns={columns})",
            )
            selected = " UNION ALL ".join(f'SELECT id, "at", v FROM {part}' for part in parts)
            connection.execute(f"CREATE TABLE input AS {selected}")
            found = DeltaTable(loaded.target.url).to_pyarrow_table()
            connection.register("found", found)
            is_windows = loaded.pipeline.audit is not None
            query = HOURLY_SQL if is_windows else 'SELECT id, "at", v FROM input'
            connection.execute(f"CREATE VIEW expected AS {query}")
            count = connection.sql(
                """SELECT count(*) FROM (
                (SELECT * FROM expected EXCEPT ALL SELECT * FROM found) UNION ALL
                (SELECT * FROM found EXCEPT ALL SELECT * FROM expected))"""
            ).fetchall()
        return int(count[0][0])

    def _declare(
        self, name: str, sources: list[dict[str, Any]], transform: str, sink: Any, /, **more: Any
    ) -> LoadedPipeline:
        document = {
            "name": name,
            "event_time": "at",
            "key": ["id"],
            "allowed_lateness": "100 min",
            "sources": sources,
            "transform": f"transforms:{transform}",
            "sink": sink,
            "state": "state",
            "spark": {"conf": dict(SMALL)},
        } | more
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_pipeline(path)

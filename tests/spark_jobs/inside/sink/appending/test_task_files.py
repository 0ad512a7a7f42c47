"""Files that a task writes: whole, with statistics, and told one by one."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sources.common.schema import TIMESTAMP
from sources.errors import StateError
from sources.storage.folder import Folder
from spark_jobs.inside.sink.appending import task_files
from spark_jobs.inside.sink.appending.task_files import FILES, TaskFiles

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("at", TIMESTAMP),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("small", pa.int8()),
        ("s", pa.string()),
    ]
)
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def rows(ids: range) -> pa.RecordBatch:
    """Rows with a column more than the table, in another order."""
    columns = {
        "more": ["x" for _ in ids],
        "s": [f"text {n}" for n in ids],
        "small": [n % 100 for n in ids],
        "day": [date(1970, 1, 1) + timedelta(days=n) for n in ids],
        "price": [Decimal(n) / 100 for n in ids],
        "at": [BEGIN + timedelta(seconds=n) for n in ids],
        "id": [*ids],
    }
    kinds = {field.name: field.type for field in COLUMNS}
    arrays = [pa.array(values, kinds.get(name)) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, [*columns])


def written(files: TaskFiles, batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    told = pa.Table.from_batches(files.write(iter(batches)), FILES)
    found: list[dict[str, object]] = told.to_pylist()
    return found


@pytest.mark.parametrize("codec", task_files.CODECS)
def test_a_task_writes_one_file_with_the_columns_of_the_table(tmp_path: Path, codec: str) -> None:
    files = TaskFiles(Folder(tmp_path), COLUMNS, ["id", "at"], codec)
    (file,) = written(files, [rows(range(10)), rows(range(0)), rows(range(10, 30))])
    path = tmp_path / str(file["__path"])
    assert file["__size"] == path.stat().st_size
    said = json.loads(str(file["__statistics"]))
    assert said == {
        "numRecords": 30,
        "minValues": {"id": 0, "at": "2024-01-01T00:00:00.000Z"},
        "maxValues": {"id": 29, "at": "2024-01-01T00:00:29.000Z"},
        "nullCount": {"id": 0, "at": 0},
    }
    footer = pq.read_metadata(path)
    assert footer.num_row_groups == 1
    assert footer.row_group(0).column(0).compression == codec.upper()
    with duckdb.connect() as connection:
        query = f"SELECT * FROM '{path}' ORDER BY id"
        found = connection.sql(query).to_arrow_table()
    assert found.cast(COLUMNS).to_pylist() == rows(range(30)).select(COLUMNS.names).to_pylist()


def test_a_task_without_rows_writes_nothing(tmp_path: Path) -> None:
    files = TaskFiles(Folder(tmp_path / "out"), COLUMNS, ["id"])
    assert written(files, []) == []
    assert written(files, [rows(range(0))]) == []
    assert not (tmp_path / "out").exists()


def test_much_becomes_several_row_groups_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "GROUP_BYTES", 10_000)
    monkeypatch.setattr(task_files, "FILE_BYTES", 15_000)
    files = TaskFiles(Folder(tmp_path), COLUMNS, ["id"])
    told = written(files, [rows(range(at, at + 100)) for at in range(0, 5000, 100)])
    assert len(told) > 2
    footers = [pq.read_metadata(tmp_path / str(file["__path"])) for file in told]
    assert footers[0].num_row_groups > 1
    with duckdb.connect() as connection:
        query = f"SELECT count(*), count(DISTINCT id), sum(id) FROM '{tmp_path}/*.parquet'"
        assert connection.execute(query).fetchall() == [(5000, 5000, sum(range(5000)))]
    counts = [json.loads(str(file["__statistics"]))["numRecords"] for file in told]
    assert sum(counts) == 5000


def test_a_folder_that_can_t_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the table's folder is expected")
    files = TaskFiles(Folder(tmp_path / "out"), COLUMNS, ["id"])
    with pytest.raises(StateError, match=r"The target folder .*/out can't be written"):
        written(files, [rows(range(3))])

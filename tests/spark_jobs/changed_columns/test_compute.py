"""Files of changed columns: the rows of the table's file, in its order and its row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sources.errors import RunError
from spark_jobs.inside.changed_columns.compute import column_writer

ROOT = Path("/table of events")


def batch(path: str, rows: Sequence[int]) -> pa.RecordBatch:
    """What Spark gives a task: rows of one file, with their numbers in it."""
    uri = f"file://{str(ROOT / path).replace(' ', '%20')}"
    columns = {"__file": [uri] * len(rows), "__row": rows, "w": [n * 10 for n in rows]}
    return pa.RecordBatch.from_pydict(columns)


def written(folder: Path, groups: dict[str, list[int]], batches: Iterator[pa.RecordBatch]) -> dict:  # type: ignore[type-arg]
    """Values and sizes of the row groups of each file that is written, by the table's file."""
    found = {}
    for told in column_writer(ROOT, folder, groups)(batches):
        [row] = told.to_pylist()
        footer = pq.read_metadata(row["columns"])
        sizes = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
        values = pq.read_table(row["columns"]).to_pydict()
        assert (row["rows"], footer.metadata) == (footer.num_rows, None)
        found[row["path"]] = (values, sizes)
    return found


def test_each_file_gets_its_columns_in_row_groups_of_the_same_sizes(tmp_path: Path) -> None:
    first, second = "day=1/a b.parquet", "c.parquet"
    both = pa.concat_batches([batch(first, [5, 6]), batch(second, [0, 1])])
    given = [batch(first, [0, 1, 2, 3, 4]), both, batch(second, [2])]
    assert written(tmp_path, {first: [3, 3, 1], second: [3]}, iter(given)) == {
        first: ({"w": [0, 10, 20, 30, 40, 50, 60]}, [3, 3, 1]),
        second: ({"w": [0, 10, 20]}, [3]),
    }


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([[1, 0, 2]], id="in another order"),
        pytest.param([[0, 1]], id="one is missing"),
        pytest.param([[0, 1, 2], [3]], id="one too many"),
        pytest.param([[0, 1], [1, 2]], id="one twice"),
    ],
)
def test_rows_that_are_not_those_of_the_file_are_refused(
    tmp_path: Path, given: list[list[int]]
) -> None:
    batches = (batch("a.parquet", rows) for rows in given)
    with pytest.raises(RunError, match=r"a\.parquet did not arrive as they are in the file"):
        written(tmp_path, {"a.parquet": [3]}, batches)

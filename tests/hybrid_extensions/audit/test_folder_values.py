"""Values of partition columns that the audit takes from folder names."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.audit.readers.folder_values import options, values_in, with_values


@pytest.mark.parametrize(
    ("folder", "value"),
    [("v=a", "a"), ("v=a%2Fb%3D", "a/b="), ("v=__HIVE_DEFAULT_PARTITION__", None)],
)
def test_a_value_is_what_the_folder_s_name_says(folder: str, value: str | None) -> None:
    assert values_in(f"/in/x=1/{folder}/deep/a.parquet", ["v"]) == {"v": value}


def test_rows_have_the_values_of_their_folders_whatever_other_folders_there_are(
    tmp_path: Path,
) -> None:
    names = ["v=it's/n=1", "x=9/n=2/v=b", "deep/er/n=__HIVE_DEFAULT_PARTITION__/v=c%20d[1]"]
    paths = []
    for key, name in enumerate(names):
        path = tmp_path / name / "a.parquet"
        path.parent.mkdir(parents=True)
        # What a file holds under the name of a partition column does not count.
        pq.write_table(pa.table({"id": [key], "n": ["inside"]}), path)
        paths.append(str(path))
    reader = f"read_parquet('{tmp_path}/**/*.parquet', {options(['day'])})"
    with duckdb.connect() as connection:
        found = connection.sql(
            f"SELECT id, n, v FROM {with_values(reader, paths, ['n', 'v'])} ORDER BY id"
        ).fetchall()
    assert found == [(0, "1", "it's"), (1, "2", "b"), (2, None, "c d[1]")]

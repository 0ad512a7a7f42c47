"""A cut of a table with deletion vectors, which VACUUM removes while the file's rows stay."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from sources.errors import InputError
from tests.hybrid_extensions.cuts.test_table import STORES, cut

pytestmark = pytest.mark.spark


def test_a_version_whose_deleted_rows_are_not_known_any_more_is_gone(
    tmp_path: Path, spark: SparkSession
) -> None:
    place = tmp_path / "orders"
    table = f"delta.`{place}`"
    spark.sql(
        f"CREATE TABLE {table} (v BIGINT) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id FROM range(1000)")
    spark.sql(f"DELETE FROM {table} WHERE v = 3")
    [replaced] = place.rglob("deletion_vector_*.bin")
    spark.sql(f"DELETE FROM {table} WHERE v = 5")
    made = cut(1, tmp_path, version=2)
    with duckdb.connect() as connection:
        made.create_views(connection, STORES)
        assert connection.sql("SELECT count(*) FROM public.orders").fetchall() == [(999,)]
        # As VACUUM does, once the retention is over.
        replaced.unlink()
        with pytest.raises(InputError, match=f"version 2 of .* is gone .*{replaced.name}"):
            made.create_views(connection, STORES)
        cut(1, tmp_path, version=3).create_views(connection, STORES)
        assert connection.sql("SELECT count(*) FROM public.orders").fetchall() == [(998,)]

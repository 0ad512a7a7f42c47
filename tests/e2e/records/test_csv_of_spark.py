"""CSV that Spark wrote is read with ``escape`` as Spark itself reads it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from hybrid_extensions.text_files.csv.reader import Csv
from sources.common.schema import parse_schema
from sources.formats.csv_options import CsvOptions
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.properties import examples

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
STORES = Stores(S3Settings())
COLUMNS = {"id": "int", "name": "string"}
KNOWN = ['He said "hi" twice', "C:\\temp", "C:\\temp, x", '5"', 'a\\"b', ",\\", '"', '""', "x\\n,y"]


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.sampled_from('a",\\ ;x'), max_size=8), max_size=50), st.booleans())
@example(KNOWN, False)
@example(KNOWN, True)
def test_texts_with_quotes_and_backslashes(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    names: list[str],
    multiline: bool,
) -> None:
    folder = tmp_path_factory.mktemp("csv") / "written"
    rows = [(number, name) for number, name in enumerate(names)]
    frame = spark.createDataFrame(rows, "id int, name string").coalesce(1)
    frame.write.csv(str(folder), header=True)
    (path,) = folder.glob("*.csv")
    size = path.stat().st_size
    form = Csv(CsvOptions(escape="\\", multiline=multiline))
    region = Region(str(path), 0, size, size)
    batches = read_region(form, region, parse_schema(COLUMNS), STORES)
    found = [(row["id"], row["name"]) for batch in batches for row in batch.to_pylist()]
    by_spark = spark.read.schema("id int, name string").csv(str(path), header=True)
    # An empty text is null to Spark, however it is written; here only without quotes.
    assert [(n, name or None) for n, name in found] == [(r.id, r.name) for r in by_spark.collect()]

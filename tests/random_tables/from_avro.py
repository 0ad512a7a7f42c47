"""Spark's own `from_avro` over values: `python -m tests.random_tables.from_avro FOLDER`.

Of each folder in it, `values.parquet` are values that were written with `schema.avsc`; the columns
that Spark makes of them, by `reader.avsc` if it is there, are left in `rows.parquet`. It has a
process of its own, as Spark's reader of Avro is in a jar that no other session has.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.avro.functions import from_avro

from hybrid_testing.session import local_session
from spark_jobs.jvm.jar_sets import JarSet
from spark_jobs.jvm.jars import obtain

_SPARK_AVRO = JarSet(
    packages=("org.apache.spark:spark-avro_2.13:4.2.0",),
    excludes=("org.scala-lang:*", "org.apache.spark:spark-tags_2.13", "org.tukaani:xz"),
)


def main(folder: Path) -> None:
    """Read the values of all folders."""
    jars = obtain("spark-avro", _SPARK_AVRO)
    with local_session(folder / "scratch", jars=jars) as spark:
        for case in sorted(folder.glob("case-*")):
            values = spark.createDataFrame(pq.read_table(case / "values.parquet"))
            schema = (case / "schema.avsc").read_text()
            options = {"mode": "FAILFAST"}
            if (reader := case / "reader.avsc").exists():
                options["avroSchema"] = reader.read_text()
            row = from_avro("value", schema, options)
            rows = values.select("place", row.alias("row")).select("place", "row.*")
            pq.write_table(rows.orderBy(F.col("place")).toArrow(), case / "rows.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

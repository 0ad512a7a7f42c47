"""A Spark driver of its own: reads a topic in several ways, tells what came and what was shown.

Takes JSON on standard input: the topic, the jars, log4j's settings, and the options of each way.
Writes JSON to the file that is its only argument; what Spark prints goes where it goes.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, topic: str, options: dict[str, str], batch: bool) -> dict[str, Any]:
    explained = io.StringIO()
    answer: dict[str, Any] = {"rows": None, "error": ""}
    try:
        reader = (spark.read if batch else spark.readStream).format("kafka").options(**options)
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        with contextlib.redirect_stdout(explained):
            frame.explain(True)
        rows = frame if batch else streamed(spark, frame, explained)
        answer["rows"] = sorted(bytes(row.value).decode() for row in rows.select("value").collect())
    except Exception as error:  # whatever Spark makes of it
        answer["error"] = f"{error!r}\n{error}"
    return {**answer, "explained": explained.getvalue()}


def streamed(spark: SparkSession, frame: DataFrame, explained: io.StringIO) -> DataFrame:
    memory = frame.writeStream.format("memory").queryName("rows")
    query = memory.trigger(availableNow=True).start()
    query.awaitTermination()
    with contextlib.redirect_stdout(explained):
        query.explain(True)
    return spark.table("rows")


def main() -> None:
    asked = json.load(sys.stdin)
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(asked["jars"]))
        .config(
            "spark.driver.extraJavaOptions", f"{java} -Dlog4j2.configurationFile={asked['log']}"
        )
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    answers = {
        name: {
            kind: read(spark, asked["topic"], options, kind == "batch")
            for kind in ("batch", "stream")
        }
        for name, options in asked["options"].items()
    }
    Path(sys.argv[1]).write_text(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main()

"""Small Spark job that loads a driver's classes, run once an installation, to archive them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses


def main(folder: str) -> None:
    """Run what a driver runs in a small Spark job, so that the JVM archives the loaded classes.

    Run by ``spark-submit`` once per installation; the results are thrown away. Two streaming
    queries read a small Delta table: one appends its rows, after a join, to another Delta table;
    one passes them through Python, counts them in windows and writes the counts by MERGE. Kafka's
    classes are loaded without a broker.

    Args:
        folder: Scratch folder for the tables and checkpoints; the caller removes it. It has to be
            empty, as Spark refuses to write a table that an earlier call has left there.
    """
    spark = SparkSession.builder.getOrCreate()
    moments = F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id"))
    rows = spark.range(100).select("id", moments.alias("at"), F.to_json(F.struct("id")).alias("v"))
    rows.write.format("delta").save(f"{folder}/in")

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def run(name: str, made: DataFrame, mode: str) -> None:
        writer = made.writeStream.option("checkpointLocation", f"{folder}/c-{name}")
        if mode == "append":
            writer = writer.format("delta").option("path", f"{folder}/{name}")
        else:
            writer = writer.foreachBatch(merge).outputMode(mode)
        writer.trigger(availableNow=True).start().awaitTermination()

    def merge(batch: DataFrame, _: int) -> None:
        batch = batch.persist()
        batch.count()
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{folder}/merged` t USING {{source}} s ON t.start <=> s.start "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            source=batch,
        )
        batch.unpersist()

    read = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(f"{folder}/in")
    parsed = read.mapInArrow(same, read.schema).withColumn(
        "j", F.from_json("v", "id bigint", {"mode": "FAILFAST"})
    )
    nothing = spark.readStream.schema(read.schema).parquet(f"{folder}/nothing/*")
    run("appended", read.unionByName(nothing).join(rows.limit(3), "id", "left_anti"), "append")
    window = F.window("at", "1 minute")
    hourly = (
        parsed.withWatermark("at", "1 minute")
        .groupBy(window)
        .agg(F.count("*").alias("n"), F.max("j.id").alias("m"))
        .select(F.col("window.start").alias("start"), "n", "m")
    )
    spark.createDataFrame([], hourly.schema).write.format("delta").save(f"{folder}/merged")
    run("windows", hourly, "update")
    # No broker is needed to load what would talk to one.
    offsets = json.dumps({"t": {"0": 0}})
    topic = spark.readStream.format("kafka").option("subscribe", "t")
    topic = topic.option("kafka.bootstrap.servers", "127.0.0.1:1").option(
        "startingOffsets", offsets
    )
    topic.load().selectExpr("CAST(value AS string)").explain()
    for name in (
        "org.apache.kafka.clients.consumer.KafkaConsumer",
        "org.apache.kafka.clients.admin.KafkaAdminClient",
        "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    ):
        spark._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

"""Files of a checkpoint on a disk: whole or not there, never replaced by another driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from spark_jobs.jvm.storage_jar import ON_DISK

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


class Manager:
    """The checkpoint's files, as Spark writes them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        jvm: Any = spark._jvm
        java: Any = spark.sparkContext._jsc
        self._jvm = jvm
        self._folder = folder
        made = jvm.hybridbackfill.storage.LocalCheckpointFileManager
        self.manager: Any = made(self.path("checkpoint"), java.hadoopConfiguration())

    def path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}")

    def write(self, name: str, text: str, *, overwrite: bool = False, cancel: bool = False) -> None:
        stream = self.manager.createAtomic(self.path(name), overwrite)
        stream.write(text.encode())
        stream.cancel() if cancel else stream.close()

    def read(self, name: str) -> str:
        stream = self.manager.open(self.path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()


def test_a_file_is_there_as_a_whole_and_is_never_replaced_unless_it_may_be(
    tmp_path: Path, spark: SparkSession
) -> None:
    files = Manager(spark, tmp_path)
    begun = files.manager.createAtomic(files.path("7"), False)
    begun.write(b"one")
    begun.flush()
    assert not (tmp_path / "7").exists()
    # Another driver is faster.
    files.write("7", "two")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        begun.close()
    assert files.read("7") == "two"
    files.write("7", "three", overwrite=True)
    files.write("8", "none", cancel=True)
    assert files.read("7") == "three"
    # Nothing else is left behind.
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_files_of_hadoop_s_client_are_read_and_replaced(
    tmp_path: Path, spark: SparkSession
) -> None:
    files = Manager(spark, tmp_path)
    java: Any = spark.sparkContext._jsc
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.FileSystem.getLocal(java.hadoopConfiguration())
    stream = hadoop.create(files.path("7"), True)
    stream.write(b"by Hadoop")
    stream.close()
    assert (tmp_path / ".7.crc").exists()
    assert files.read("7") == "by Hadoop"
    # Else it would be compared with the checksum of what was there before.
    files.write("7", "by Java", overwrite=True)
    assert files.read("7") == "by Java"


@pytest.mark.parametrize("first", ["disk", "hadoop"])
def test_a_query_goes_on_with_what_the_other_way_has_written(
    tmp_path: Path, spark: SparkSession, first: str
) -> None:
    (name,) = ON_DISK
    found = []
    for number, who in enumerate([first, "hadoop" if first == "disk" else "disk"] * 2):
        own = spark.newSession()
        if who == "disk":
            own.conf.set(name, ON_DISK[name])
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n{number}\n")
        counts = own.readStream.text(str(tmp_path / "in")).groupBy("value").count()
        query = (
            counts.writeStream.outputMode("update")
            .foreachBatch(lambda batch, _: found.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        hidden = [path.name for path in (tmp_path / "checkpoint" / "commits").glob(".*.crc")]
        assert (f".{number}.crc" in hidden) == (who == "hadoop")
    assert sorted((row["value"], row["count"]) for row in found) == [
        (str(number), 2) for number in range(4)
    ]

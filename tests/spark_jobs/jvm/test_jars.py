from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from sources.errors import InputError
from spark_jobs.jvm.jar_sets import SETS, JarSet, excludes, packages
from spark_jobs.jvm.jars import resolve, resolve_sets
from spark_jobs.jvm.spark_version import installed_parts
from tests.spark_jobs.jvm.tiny_repository import (
    Server,
    add,
    names,
    resolve_elsewhere,
    take_java_away,
    tiny_repository,
    use_tiny_set,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_tiny_set(monkeypatch, tmp_path / "cache [of mine]")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return tiny_repository(tmp_path / "repository (of mine)")


@pytest.fixture
def mirror(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", repository.as_uri())
    return repository


def test_a_set_comes_with_what_it_needs_and_is_then_there_without_java(
    mirror: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    found = resolve("tiny", told.append)
    assert names(found) == ["one-1.0.jar", "three-1.0.jar", "two-1.0.jar"]
    assert all(zipfile.is_zipfile(path) for path in found)
    assert sorted(told) == names(found)
    assert sorted(path.name for path in found[0].parents[1].iterdir()) == [
        found[0].parent.name,
        f"{found[0].parent.name}.lock",
    ]
    assert found[0].is_relative_to(cache)
    take_java_away(monkeypatch, tmp_path / "nothing")
    assert resolve("tiny", told.append) == found
    assert len(told) == 3


def test_another_declaration_is_another_folder(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resolve("tiny")
    add(mirror, "five")
    monkeypatch.setitem(SETS, "tiny", JarSet(packages=("org.example:five:1.0",)))
    assert names(resolve("tiny")) == ["five-1.0.jar"]
    assert before[0].exists()


@pytest.mark.parametrize("damage", ["cut short", "gone", "no listing"])
def test_a_folder_that_is_no_longer_whole_is_fetched_again(mirror: Path, damage: str) -> None:
    found = resolve("tiny")
    size = found[1].stat().st_size
    if damage == "cut short":
        os.truncate(found[1], 10)
    elif damage == "gone":
        found[1].unlink()
    else:
        (found[1].parent / "files.json").unlink()
    assert resolve("tiny") == found
    assert found[1].stat().st_size == size


@pytest.mark.crash
def test_a_killed_download_is_not_taken_for_complete_and_its_ivy_is_waited_for(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Queue[str] = Queue()
    with Server(repository, held="two-1.0.jar") as server, ThreadPoolExecutor() as pool:
        monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", server.url())
        with resolve_elsewhere() as process:
            assert server.reached.wait(60)
            process.kill()
        assert not list((cache / "jars").glob("*/files.json"))
        found = pool.submit(resolve, "tiny", told.put)
        # The killed process's Ivy still writes: two in one folder would spoil each other's files.
        assert told.get(timeout=60) == "Waiting for another process that downloads the tiny jars."
        server.release.set()
        assert names(found.result(60)) == ["one-1.0.jar", "three-1.0.jar", "two-1.0.jar"]
    assert all(zipfile.is_zipfile(path) for path in found.result())


def test_of_two_processes_one_downloads_and_both_get_the_jars(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(repository) as server:
        monkeypatch.setenv("HYBRID_MAVEN_REPOSITORY", server.url())
        with resolve_elsewhere() as first, resolve_elsewhere() as second:
            outputs = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert outputs[0].splitlines()[-3:] == outputs[1].splitlines()[-3:]
    assert server.asked.count("two-1.0.jar") == 1


def test_without_java_nothing_is_downloaded_and_java_is_asked_for(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_java_away(monkeypatch, tmp_path / "nothing")
    with pytest.raises(InputError, match="No Java was found"):
        resolve("tiny")


def test_a_cache_that_can_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="HYBRID_CACHE"):
        resolve("tiny")


def test_jars_that_are_handed_in_are_taken_without_network_or_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "handed" / "tiny"
    folder.mkdir(parents=True)
    for name in ("b.jar", "a.jar", "files.json"):
        (folder / name).touch()
    monkeypatch.setenv("HYBRID_JARS", str(tmp_path / "handed"))
    take_java_away(monkeypatch, tmp_path / "nothing")
    assert resolve("tiny") == [folder / "a.jar", folder / "b.jar"]


@pytest.mark.parametrize(("exists", "state"), [(True, "holds no jars"), (False, "does not exist")])
def test_a_handed_in_folder_without_jars_is_named_with_how_to_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool, state: str
) -> None:
    folder = tmp_path / "handed" / "tiny"
    if exists:
        folder.mkdir(parents=True)
    monkeypatch.setenv("HYBRID_JARS", str(tmp_path / "handed"))
    with pytest.raises(InputError) as caught:
        resolve("tiny")
    assert f"{folder} {state}" in caught.value.message
    assert "`hybrid jars tiny`" in caught.value.hint


def test_a_set_that_nobody_declared_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        InputError,
        match=r"`nothing`.*azure, broker, connect, connect-mariadb, .*s3, spark",
    ):
        resolve("nothing")


def test_a_cluster_gets_the_packages_without_the_pin_that_it_can_not_express() -> None:
    wanted = packages("spark").split(",")
    assert installed_parts().delta in wanted
    assert all(coordinate.count(":") == 2 for coordinate in wanted)
    assert "token-provider" not in packages("spark")
    assert "org.slf4j:*" in excludes("spark").split(",")


def test_a_cluster_leaves_out_what_any_of_the_sets_does() -> None:
    both = excludes("spark", "s3").split(",")
    assert len(both) == len(set(both))
    assert set(both) == {*excludes("spark").split(","), *excludes("s3").split(",")}


def test_s3_comes_without_the_bundle_of_the_whole_sdk() -> None:
    assert "software.amazon.awssdk:bundle" in excludes("s3").split(",")
    assert f"software.amazon.awssdk:sts:{installed_parts().aws_sdk}" in packages("s3").split(",")


def test_several_sets_come_in_the_order_that_they_were_asked_for(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(mirror, "five")
    monkeypatch.setitem(SETS, "other", JarSet(packages=("org.example:five:1.0",)))
    told: list[str] = []
    found = resolve_sets(["tiny", "other"], told.append)
    assert {name: names(paths) for name, paths in found.items()} == {
        "tiny": ["one-1.0.jar", "three-1.0.jar", "two-1.0.jar"],
        "other": ["five-1.0.jar"],
    }
    assert list(found) == ["tiny", "other"]
    assert sorted(told) == ["five-1.0.jar", *names(found["tiny"])]


def test_nothing_is_downloaded_if_one_of_several_sets_is_unknown(mirror: Path, cache: Path) -> None:
    with pytest.raises(InputError, match="`nothing`"):
        resolve_sets(["tiny", "nothing"])
    assert not cache.exists()


def test_one_of_several_sets_that_can_not_be_had_is_named(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETS, "other", JarSet(packages=("org.example:six:1.0",)))
    with pytest.raises(InputError, match="The other jars can't be downloaded"):
        resolve_sets(["other", "tiny"])
    assert names(resolve("tiny")) == ["one-1.0.jar", "three-1.0.jar", "two-1.0.jar"]


IN_SPARK = """
import sys
from pyspark.sql import SparkSession
extension, catalog = (
    "io.delta.sql.DeltaSparkSessionExtension", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", sys.argv[1])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.warehouse.dir", sys.argv[2])
    .config("spark.sql.extensions", extension)
    .config("spark.sql.catalog.spark_catalog", catalog)
    .getOrCreate()
)
table = sys.argv[2] + "/table"
frame = spark.range(10).selectExpr("id", "id % 2 AS part")
frame.write.format("delta").partitionBy("part").save(table)
# A deletion vector takes RoaringBitmap, which PySpark brings.
spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 3")
rows = spark.read.format("delta").load(table).count()
kafka = spark.readStream.format("kafka").option("subscribe", "t")
columns = kafka.option("kafka.bootstrap.servers", "127.0.0.1:1").load().columns
print("found", rows, *columns[:3])
spark.stop()
"""


@pytest.mark.spark
def test_the_spark_set_is_enough_to_write_and_read_delta_and_to_load_the_kafka_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    found = ",".join(str(jar) for jar in resolve("spark"))
    run = subprocess.run(
        [sys.executable, "-c", IN_SPARK, found, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "found 9 key value topic" in run.stdout, run.stderr

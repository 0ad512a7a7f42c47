"""Two writers of one object: a request is held back while the rival writes, so the order is fixed.

Nothing here waits for a coincidence: whoever is late must see that the name is taken.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from hybrid_extensions.generations.files.take_over import OutdatedError, prepare
from hybrid_extensions.s3.documents import S3Documents
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from sources.storage.tables.delta import delta_table
from tests.services.processes import wait_for
from tests.services.s3_server import LOGIN, STORES, client, s3_server, tell
from tests.services.s3_session import session_on_s3

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module", params=STORES)
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOGIN.items():
            patch.setenv(name, value)
        with s3_server(request.param) as running:
            client(running).create_bucket(Bucket=bucket_of(running))
            yield running


def bucket_of(endpoint: str) -> str:
    """One for each server: Hadoop's client keeps its connection to a bucket."""
    return f"lake-{endpoint.rpartition(':')[2]}"


@pytest.fixture
def folder(endpoint: str, request: pytest.FixtureRequest) -> Iterator[Folder]:
    url = f"s3://{bucket_of(endpoint)}/{request.node.originalname}"
    yield Folder(url, S3Documents(S3Settings(endpoint=endpoint)))
    tell(endpoint, "free")
    tell(endpoint, "faults")


@pytest.fixture
def session(spark: SparkSession, endpoint: str) -> SparkSession:
    return session_on_s3(spark, endpoint, bucket_of(endpoint))


def append(
    session: SparkSession, folder: Folder, number: int, options: Mapping[str, str] | None = None
) -> None:
    rows = session.range(number, number + 1).coalesce(1)
    writer = rows.write.format("delta").mode("append").options(**(options or {}))
    writer.save(folder.hadoop_path)


def read(session: SparkSession, folder: Folder) -> list[int]:
    rows = session.read.format("delta").load(folder.hadoop_path).collect()
    return sorted(row[0] for row in rows)


def append_by_rust(folder: Folder, number: int) -> None:
    rows = pa.table({"id": [number]}, COLUMNS)
    options = folder.documents.delta_options
    write_deltalake(folder.url, rows, mode="append", storage_options=options)


def numbers(folder: Folder) -> list[int]:
    return sorted(delta_table(folder).to_pyarrow_table()["id"].to_pylist())


class Late:
    """Work in a thread, whose first request for a key is held back until it is let go."""

    def __init__(self, endpoint: str, key: str, work: Any) -> None:
        self._endpoint = endpoint
        self.error: BaseException | None = None
        tell(endpoint, "faults", hold=f"^PUT .*{key}")
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()
        wait_for(lambda: tell(endpoint, "held") or not self._thread.is_alive(), "the request", 60)

    def _run(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:
            self.error = error

    def let_go(self) -> None:
        tell(self._endpoint, "free")
        self._thread.join()


def test_a_commit_of_spark_that_is_late_takes_the_next_version(
    session: SparkSession, endpoint: str, folder: Folder
) -> None:
    append(session, folder, 0)
    late = Late(endpoint, f"{1:020d}.json", lambda: append(session, folder, 1))
    append_by_rust(folder, 2)
    late.let_go()
    assert late.error is None
    assert (numbers(folder), delta_table(folder).version()) == ([0, 1, 2], 2)


def test_a_commit_of_delta_rs_that_is_late_takes_the_next_version(
    session: SparkSession, endpoint: str, folder: Folder
) -> None:
    append(session, folder, 0)
    late = Late(endpoint, f"{1:020d}.json", lambda: append_by_rust(folder, 1))
    append(session, folder, 2)
    late.let_go()
    assert late.error is None
    assert (numbers(folder), delta_table(folder).version()) == ([0, 1, 2], 2)


def test_a_promotion_that_is_late_is_refused_and_a_micro_batch_stays(
    session: SparkSession, endpoint: str, folder: Folder
) -> None:
    table, other = folder.folder("out"), folder.folder("out.g2")
    append(session, table, 0)
    append(session, other, 7)
    ready = prepare(table, other, None)
    late = Late(endpoint, f"out/_delta_log/{1:020d}.json", lambda: ready.commit({}, {}))
    append(session, table, 1)
    late.let_go()
    assert isinstance(late.error, OutdatedError)
    assert numbers(table) == [0, 1]


def test_a_micro_batch_that_is_late_follows_a_promotion_or_is_refused(
    session: SparkSession, endpoint: str, folder: Folder
) -> None:
    table, other = folder.folder("out"), folder.folder("out.g2")
    append(session, table, 0)
    append(session, other, 7)
    late = Late(endpoint, f"out/_delta_log/{1:020d}.json", lambda: append(session, table, 1))
    prepare(table, other, None).commit({}, {})
    late.let_go()
    # Never lost: the version of the promotion is in the log, and the late one after it if at all.
    expected = [7] if late.error is not None else [1, 7]
    assert numbers(table) == expected


def test_of_two_drivers_on_one_checkpoint_the_late_one_fails_and_nothing_is_overwritten(
    session: SparkSession, endpoint: str, folder: Folder
) -> None:
    checkpoint, table = folder.folder("checkpoint"), folder.folder("out")
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint.hadoop_path)

    def run() -> None:
        writer.start(table.hadoop_path).awaitTermination()

    late = Late(endpoint, "checkpoint/offsets/1$", run)
    rival = json.dumps({"a": "rival"}).encode()
    checkpoint.replace_bytes("offsets/1", rival)
    late.let_go()
    assert "Multiple streaming queries are concurrently using" in str(late.error)
    assert checkpoint.read_bytes("offsets/1") == rival


def test_however_long_a_log_is_a_commit_lists_it_with_one_request(
    session: SparkSession, endpoint: str, folder: Folder
) -> None:
    append(session, folder, 0)
    store, bucket = client(endpoint), bucket_of(endpoint)
    prefix = folder.url.removeprefix(f"s3://{bucket}/")
    # Sorted before the commits, as older ones are.
    for number in range(1200):
        store.put_object(Bucket=bucket, Key=f"{prefix}/_delta_log/{-number:05d}.json", Body=b"")
    append(session, folder, 1)
    tell(endpoint, "requests")
    append(session, folder, 2)
    counts = tell(endpoint, "requests")
    assert sum(n for key, n in counts.items() if key.startswith("LIST")) == 1
    assert numbers(folder) == [0, 1, 2]


def test_a_commit_reads_those_before_it_once(
    session: SparkSession, endpoint: str, folder: Folder
) -> None:
    for number in range(8):
        # Delta looks up a stream's last transaction in all commits.
        as_stream = {"txnAppId": "stream", "txnVersion": str(number)}
        append(session, folder, number, as_stream)
        counts = tell(endpoint, "requests")
    reads = {key: n for key, n in counts.items() if key.startswith("GET") and "_delta_log" in key}
    assert sum(reads.values()) == 1
    append(session, folder, 8, as_stream)
    assert numbers(folder) == list(range(8)), "this transaction was committed before"


def test_a_table_that_is_deleted_and_made_again_is_read_anew(
    session: SparkSession, folder: Folder
) -> None:
    for number in range(3):
        append(session, folder, number)
    assert read(session, folder) == [0, 1, 2]
    folder.delete_all()
    with pytest.raises(AnalysisException, match="Path does not exist"):
        read(session, folder)
    for number in range(5, 8):
        append_by_rust(folder, number)
    assert read(session, folder) == [5, 6, 7]

"""Files in HDFS, on a real namenode and datanode: listed, planned, and what is refused."""

from __future__ import annotations

import gzip
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hdfs_native import Client, WriteOptions

from hybrid_extensions.delta_history.delta_table import list_table
from hybrid_extensions.hdfs.documents import HdfsDocuments
from hybrid_extensions.hdfs.files import HdfsStorage, connect
from sources.common.schema import parse_schema
from sources.common.sql.select import EventColumn
from sources.config.source.file_source import FileSource
from sources.errors import InputError, UnavailableError
from sources.files.format_registry import format_of
from sources.files.listing import sampled_splits as splitting
from sources.files.listing.changed_splits import changed_splits
from sources.files.listing.source_listing import list_splits
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.storage.base import Children
from sources.storage.listing import find_files
from sources.storage.settings import HdfsSettings, S3Settings
from sources.storage.stores import Stores
from tests.services.hdfs_server import write_conf
from tests.sources.files.file_case import JAN_1_US, parquet, source

pytestmark = pytest.mark.slow
COLUMNS = {"id": "bigint", "at": "timestamp"}
AT_ONCE = {"dfs.client.failover.max.attempts": "0"}


@pytest.fixture
def client(namenode: str) -> Client:
    return connect(namenode, HdfsSettings())


@pytest.fixture
def folder(request: pytest.FixtureRequest, namenode: str) -> str:
    return f"hdfs://{namenode}/{request.node.name}"


def put(client: Client, path: str, content: bytes) -> None:
    plain = "/" + path.removeprefix("hdfs://").partition("/")[2]
    with client.create(plain, WriteOptions(overwrite=True, create_parent=True)) as file:
        # Only a file with a block waits for the datanode to tell of it.
        if content:
            file.write(content)


def stores(**settings: Any) -> Stores:
    return Stores(S3Settings(), HdfsSettings(**settings))


def listing(declared: FileSource) -> pa.Table:
    found = find_files("h", declared.patterns, Path("/"), stores())
    return list_splits(declared, "at", found, stores()).splits


def test_folders_that_come_and_go_while_a_state_folder_is_listed_hide_no_document(
    client: Client, folder: str
) -> None:
    for number in range(20):
        put(client, f"{folder}/kept-{number}/a.json", b"")
    documents, ended = HdfsDocuments(HdfsSettings()), threading.Event()
    plain = "/" + folder.removeprefix("hdfs://").partition("/")[2]

    def come_and_go() -> None:
        while not ended.is_set():
            for number in range(5):
                client.mkdirs(f"{plain}/gone-{number}", create_parent=True)
            for number in range(5):
                client.delete(f"{plain}/gone-{number}", recursive=True)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(come_and_go)
        try:
            assert {len(documents.listing(folder)) for _ in range(50)} == {20}
        finally:
            ended.set()
        other.result()


def test_globs_walk_folders_beyond_a_page(client: Client, folder: str) -> None:
    names = [f"day={day}/{n}.json" for day in range(2) for n in range(5)]
    odd = ["odd/a b+c.json", "odd/%20#?&=.json", "odd/über.json"]
    flat = [f"flat/{n:03}.json" for n in range(230)]  # a page of this server holds 100
    for name in [*names, *odd, *flat, "_done", "day=1/.x", "aside.json"]:
        put(client, f"{folder}/{name}", b"")

    def found(pattern: str) -> list[str]:
        paths = find_files("h", [f"{folder}/{pattern}"], Path("/"), stores())["path"]
        return [path.removeprefix(f"{folder}/") for path in paths.to_pylist()]

    assert found("day=*/*.json") == sorted(names)
    assert found("flat") == flat
    assert found("**") == sorted([*names, *odd, *flat, "aside.json"])
    assert found("odd/a b+c.json") == ["odd/a b+c.json"]
    for nothing in ("nowhere/*", "aside.json/*"):
        with pytest.raises(InputError, match="no file matches"):
            found(nothing)


def test_a_partition_that_is_exchanged_while_its_folder_is_listed_is_found(
    client: Client, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the folder is listed, the partition has neither its name nor a file."""
    for day in ("day=1", "day=2", "new"):
        put(client, f"{folder}/{day}/a.json", b"")
    place, looks, children = "/" + folder.rpartition("/")[2], list[str](), HdfsStorage.children

    def listed(storage: HdfsStorage, at: str) -> Children:
        looks.append(at)
        if len(looks) > 1:
            return children(storage, at)
        client.rename(f"{place}/day=1", f"{place}/_old")
        found = children(storage, at)
        client.rename(f"{place}/new", f"{place}/day=1")
        return found

    monkeypatch.setattr(HdfsStorage, "children", listed)
    found = find_files("h", [f"{folder}/day=*/*.json"], Path("/"), stores())["path"].to_pylist()
    assert found == [f"{folder}/day=1/a.json", f"{folder}/day=2/a.json"]
    assert looks.count(folder) == 2


def test_footers_and_samples_are_read_where_they_are(client: Client, folder: str) -> None:
    put(client, f"{folder}/p/b.parquet", parquet(5, 9))
    put(client, f"{folder}/p/a.parquet", parquet(10, 12))
    lines = b'{"id": 1, "at": "2024-01-01T00:03:00Z"}\n'
    put(client, f"{folder}/j/x.json.gz", gzip.compress(lines))
    found = listing(source(f"{folder}/p")).to_pylist()
    assert [split["path"].rpartition("/")[2] for split in found] == ["b.parquet", "a.parquet"]
    assert found[1]["event_max_us"] == JAN_1_US + 12 * 60_000_000
    (split,) = listing(source(f"{folder}/j", format="json", schema=COLUMNS)).to_pylist()
    assert split["event_min_us"] == JAN_1_US + 3 * 60_000_000


def test_regions_of_a_file_hold_each_row_once_in_a_task_too(
    client: Client, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "REGION_BYTES", 10_000)
    lines = [f'{{"id": {n}, "at": "2024-01-01T00:{n % 60:02}:00Z"}}\n' for n in range(2000)]
    put(client, f"{folder}/x.json", "".join(lines).encode())
    declared = source(f"{folder}/*", format="json", schema=COLUMNS)
    splits = listing(declared).to_pylist()
    assert len(splits) > 5
    # As it travels to Spark's tasks.
    remote = pickle.loads(pickle.dumps(stores()))
    rows = [
        row["id"]
        for split in splits
        for batch in read_region(
            format_of(declared),
            Region(*(split[name] for name in Region._fields)),
            parse_schema(COLUMNS),
            remote,
        )
        for row in batch.to_pylist()
    ]
    assert sorted(rows) == list(range(2000))


def test_a_file_that_was_rewritten_or_deleted_is_noticed(client: Client, folder: str) -> None:
    for name in ("a", "b", "c", "d"):
        put(client, f"{folder}/{name}.parquet", parquet(1))
    splits = listing(source(f"{folder}/*"))
    assert changed_splits(splits, stores()) == []
    plain = "/" + folder.removeprefix("hdfs://").partition("/")[2]
    before = client.get_file_info(f"{plain}/b.parquet").modification_time
    assert splits["modified_ns"][1].as_py() == before * 1_000_000
    # Of the same size, a millisecond later: only its time tells.
    client.set_times(f"{plain}/b.parquet", before + 1, before + 1)
    client.delete(f"{plain}/c.parquet")
    client.delete(f"{plain}/d.parquet")
    client.mkdirs(f"{plain}/d.parquet")
    assert changed_splits(splits, stores()) == [
        f"{folder}/b.parquet was rewritten",
        f"{folder}/c.parquet is missing",
        f"{folder}/d.parquet is missing",
    ]


def test_a_damaged_file_is_named(client: Client, folder: str) -> None:
    put(client, f"{folder}/a.parquet", b"PAR1 no")
    with pytest.raises(InputError, match=f"{folder}/a.parquet can't be read as Parquet"):
        listing(source(f"{folder}/*"))


def test_a_namenode_that_does_not_answer_is_named_with_the_way_out() -> None:
    unreachable = stores(conf=AT_ONCE)
    with pytest.raises(
        UnavailableError, match=r"hdfs://127\.0\.0\.1:9/in can't be listed: Conn"
    ) as caught:
        find_files("h", ["hdfs://127.0.0.1:9/in/*"], Path("/"), unreachable)
    assert "HADOOP_CONF_DIR" in str(caught.value)
    assert caught.value.fields["server"] == "127.0.0.1:9"
    with pytest.raises(UnavailableError, match=r"hdfs://127\.0\.0\.1:9/in/a can't be examined: C"):
        find_files("h", ["hdfs://127.0.0.1:9/in/a"], Path("/"), unreachable)
    with pytest.raises(InputError, match="hdfs://host:port/in can't be listed: "):
        find_files("h", ["hdfs://host:port/in/*"], Path("/"), unreachable)
    # Without a port it is Hadoop's, 8020; here nobody listens on it.
    with pytest.raises(UnavailableError, match=r"hdfs://127\.0\.0\.2/in can't be listed: Conn"):
        find_files("h", ["hdfs://127.0.0.2/in/*"], Path("/"), unreachable)


def test_who_may_not_read_is_told_so(
    client: Client, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, f"{folder}/closed/a.parquet", parquet(1))
    plain = "/" + folder.removeprefix("hdfs://").partition("/")[2]
    client.set_permission(f"{plain}/closed/a.parquet", 0o600)
    monkeypatch.setenv("HADOOP_USER_NAME", "guest")
    with pytest.raises(InputError, match=r"a\.parquet can't be read as Parquet: .*user=guest"):
        listing(source(f"{folder}/closed"))
    client.set_permission(f"{plain}/closed", 0o700)
    with pytest.raises(InputError, match=r"/closed can't be listed: .*user=guest") as caught:
        listing(source(f"{folder}/closed/*"))
    assert "HADOOP_USER_NAME" in str(caught.value)
    assert "org.apache" not in str(caught.value)


def test_a_name_service_is_found_where_hadoop_looks_for_it(
    client: Client, folder: str, namenode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, f"{folder}/a.parquet", parquet(1))
    service = {
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "a,b",
        # The first one is down: the second one is asked.
        "dfs.namenode.rpc-address.lake.a": "127.0.0.1:9",
        "dfs.namenode.rpc-address.lake.b": namenode,
    }
    path = f"hdfs://lake/{folder.rpartition('/')[2]}/*"
    declared = find_files("h", [path], Path("/"), stores(conf=service))
    write_conf(tmp_path / "hdfs-site.xml", service)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    found = find_files("h", [path], Path("/"), stores())
    assert found["path"].to_pylist() == [path.replace("*", "a.parquet")]
    assert found.equals(declared)


def test_a_delta_table_is_read_where_it_is(folder: str) -> None:
    at = pa.array([JAN_1_US, JAN_1_US + 60_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    # Without statistics in the log, footers are asked.
    config = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(f"{folder}/t", pa.table({"id": [1, 2], "at": at}), configuration=config)
    declared, event = source(f"{folder}/t", format="delta"), EventColumn("at", None)
    found = list_table(declared, f"{folder}/t", event, stores())
    assert [found.ranges[0].low, found.ranges[0].high] == [JAN_1_US, JAN_1_US + 60_000_000]
    (now,) = stores().of(folder).stat([found.files[0].path])
    assert now is not None
    assert now.size == found.files[0].size
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9/t can't be listed: Conn"):
        list_table(declared, "hdfs://127.0.0.1:9/t", event, stores(conf=AT_ONCE))

"""Files in an object store, on a real server: listed, planned, and what is refused."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hybrid_extensions.delta_history.delta_table import list_table
from sources.common.sql.select import EventColumn
from sources.config.source.file_source import FileSource
from sources.errors import InputError, UnavailableError
from sources.files.listing.changed_splits import changed_splits
from sources.files.listing.source_listing import list_splits
from sources.formats.parquet import footers as parquet_format
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.services.s3_server import LOGIN, client, require_logins, s3_server, tell
from tests.sources.files.file_case import JAN_1_US, parquet, source

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(request: pytest.FixtureRequest, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    name = f"b-{abs(hash(request.node.name))}"
    client(endpoint).create_bucket(Bucket=name)
    return name


def listing(declared: FileSource, stores: Stores) -> pa.Table:
    files = find_files("h", declared.patterns, Path("/"), stores)
    return list_splits(declared, "at", files, stores).splits


def test_globs_walk_folders_of_keys_beyond_a_page(endpoint: str, bucket: str) -> None:
    keys = [f"in/day={day}/{n:04}.parquet" for day in range(3) for n in range(20)]
    flat = [f"in/flat/{n:04}.parquet" for n in range(1100)]  # a page holds 1,000 keys
    writer = client(endpoint)
    for key in [*keys, *flat, "in/_done", "in/day=1/.x", "aside/a.parquet"]:
        writer.put_object(Bucket=bucket, Key=key, Body=b"x")
    stores = Stores(S3Settings(endpoint=endpoint))

    def found(pattern: str) -> list[str]:
        path = f"s3://{bucket}/{pattern}"
        files = find_files("h", [path], Path("/"), stores)
        return [name.removeprefix(f"s3://{bucket}/") for name in files["path"].to_pylist()]

    assert found("in/day=*/*.parquet") == sorted(keys)
    assert found("in/flat") == flat
    assert found("in/**") == sorted([*keys, *flat])
    assert found("aside/a.parquet") == ["aside/a.parquet"]


def test_footers_and_samples_are_read_where_they_are(endpoint: str, bucket: str) -> None:
    stores = Stores(S3Settings(endpoint=endpoint))
    client(endpoint).put_object(Bucket=bucket, Key="p/b.parquet", Body=parquet(5, 9))
    client(endpoint).put_object(Bucket=bucket, Key="p/a.parquet", Body=parquet(10, 12))
    lines = b'{"id": 1, "at": "2024-01-01T00:03:00Z"}\n'
    client(endpoint).put_object(Bucket=bucket, Key="j/x.json.gz", Body=gzip.compress(lines))
    found = listing(source(f"s3://{bucket}/p"), stores).to_pylist()
    assert [split["path"].rpartition("/")[2] for split in found] == ["b.parquet", "a.parquet"]
    assert found[1]["event_max_us"] == JAN_1_US + 12 * 60_000_000
    declared = source(f"s3://{bucket}/j", format="json", schema={"id": "bigint", "at": "timestamp"})
    (split,) = listing(declared, stores).to_pylist()
    assert split["event_min_us"] == JAN_1_US + 3 * 60_000_000


@pytest.mark.parametrize("process_objects", [99, 1])
def test_footers_of_many_objects_keep_their_files_and_a_damaged_one_is_named(
    endpoint: str, bucket: str, process_objects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_format, "PROCESS_OBJECTS", process_objects)
    monkeypatch.setattr(parquet_format, "OBJECTS_AT_ONCE", 7)
    monkeypatch.setattr(parquet_format, "CHUNK_OBJECTS", 3)
    stores = Stores(S3Settings(endpoint=endpoint))
    for n in range(20):
        client(endpoint).put_object(Bucket=bucket, Key=f"{n:02}.parquet", Body=parquet(n))
    found = listing(source(f"s3://{bucket}/*"), stores).to_pylist()
    minutes = {split["path"][-10:-8]: split["event_min_us"] for split in found}
    assert minutes == {f"{n:02}": JAN_1_US + n * 60_000_000 for n in range(20)}
    body = parquet(1)
    length = int.from_bytes(body[-8:-4], "little")
    damaged = body[: -8 - length] + b"\xff" * length + body[-8:]
    client(endpoint).put_object(Bucket=bucket, Key="11.parquet", Body=damaged)
    with pytest.raises(InputError, match=r"11\.parquet can't be read as Parquet"):
        listing(source(f"s3://{bucket}/*"), stores)


def test_an_object_that_was_rewritten_or_deleted_is_noticed(endpoint: str, bucket: str) -> None:
    stores = Stores(S3Settings(endpoint=endpoint))
    for name in ("a", "b", "c"):
        client(endpoint).put_object(Bucket=bucket, Key=f"{name}.parquet", Body=parquet(1))
    splits = listing(source(f"s3://{bucket}/*"), stores)
    assert changed_splits(splits, stores) == []
    # Of the same size: only its ETag tells.
    client(endpoint).put_object(Bucket=bucket, Key="b.parquet", Body=parquet(2))
    client(endpoint).delete_object(Bucket=bucket, Key="c.parquet")
    changed = changed_splits(splits, stores)
    assert changed == [
        f"s3://{bucket}/b.parquet was rewritten",
        f"s3://{bucket}/c.parquet is missing",
    ]


@pytest.mark.parametrize("key", ["in//a.parquet", "/in/a.parquet", "in/x///a.parquet"])
def test_a_key_with_an_empty_part_is_refused_where_it_matches(
    endpoint: str, bucket: str, key: str
) -> None:
    writer, stores = client(endpoint), Stores(S3Settings(endpoint=endpoint))
    for each in (key, "in/b.parquet", "in/x/c.parquet"):
        writer.put_object(Bucket=bucket, Key=each, Body=b"x")
    with pytest.raises(InputError) as caught:
        find_files("h", [f"s3://{bucket}/**"], Path("/"), stores)
    assert f"the key of s3://{bucket}/{key} has an empty part" in str(caught.value)
    plain = find_files("h", [f"s3://{bucket}/in/b*"], Path("/"), stores)["path"].to_pylist()
    assert plain == [f"s3://{bucket}/in/b.parquet"]


def test_a_bucket_that_is_not_there_is_named(endpoint: str, bucket: str) -> None:
    stores = Stores(S3Settings(endpoint=endpoint))
    with pytest.raises(InputError, match="s3://other-bucket/in can't be listed at http") as caught:
        find_files("h", ["s3://other-bucket/in/*"], Path("/"), stores)
    assert caught.value.hint.startswith("Correct the bucket in s3://other-bucket/in")


def test_a_store_that_does_not_answer_is_named(bucket: str) -> None:
    stores = Stores(S3Settings(endpoint="http://127.0.0.1:9"))
    with pytest.raises(UnavailableError, match=r"at http://127\.0\.0\.1:9: ") as caught:
        find_files("h", [f"s3://{bucket}/in"], Path("/"), stores)
    assert caught.value.fields["server"] == "http://127.0.0.1:9"
    with pytest.raises(UnavailableError, match="can't be opened at"):
        stores.of("s3://").open(f"s3://{bucket}/in/a.parquet")


def test_missing_logins_are_named_and_given_ones_are_not_shown(
    endpoint: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = Stores(S3Settings(endpoint=endpoint))
    # What travels to Spark's tasks holds no login, even after one was used.
    client(endpoint).put_object(Bucket=bucket, Key="a.parquet", Body=parquet(1))
    listing(source(f"s3://{bucket}/*"), stores)
    assert LOGIN["AWS_SECRET_ACCESS_KEY"].encode() not in pickle.dumps(stores)
    for name in LOGIN:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(InputError) as caught:
        find_files("h", [f"s3://{bucket}/*"], Path("/"), Stores(S3Settings(endpoint=endpoint)))
    assert "Unable to locate credentials" in str(caught.value)
    assert caught.value.hint.startswith("Set the credentials of this store (AWS_ACCESS_KEY_ID ")
    assert LOGIN["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


def test_a_wrong_secret_is_refused_wherever_it_is_used_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet_files = source("s3://lake/in/*")
    lines = source("s3://lake/js/*", format="json", schema={"id": "bigint", "at": "timestamp"})
    table = source("s3://lake/none", format="delta")
    with s3_server() as endpoint:
        store = client(endpoint)
        store.create_bucket(Bucket="lake")
        store.put_object(Bucket="lake", Key="in/a.parquet", Body=parquet(1))
        store.put_object(Bucket="lake", Key="js/a.json", Body=b'{"id": 1, "at": "2024-01-01"}')
        login = require_logins(endpoint)
        for name, value in login.items():
            monkeypatch.setenv(name, value)

        def stores() -> Stores:
            return Stores(S3Settings(endpoint=endpoint))

        found = {
            declared.format: find_files("h", declared.patterns, Path("/"), stores())
            for declared in (parquet_files, lines)
        }
        splits = listing(parquet_files, stores())
        assert changed_splits(splits, stores()) == []

        def table_event() -> None:
            list_table(table, "s3://lake/none", EventColumn("at", None), stores())

        asked: dict[str, Callable[[], object]] = {
            "s3://lake/in can't be listed at": lambda: listing(parquet_files, stores()),
            "s3://lake/in/a.parquet can't be opened at": lambda: list_splits(
                parquet_files, "at", found["parquet"], stores()
            ),
            "s3://lake/js/a.json can't be opened at": lambda: list_splits(
                lines, "at", found["json"], stores()
            ),
            "s3://lake/in/a.parquet can't be examined at": lambda: changed_splits(splits, stores()),
            "s3://lake/none can't be read as a Delta table": table_event,
        }
        # One character at its end is wrong.
        secret = login["AWS_SECRET_ACCESS_KEY"]
        wrong = secret[:-1] + ("a" if secret[-1] != "a" else "b")
        for name, value in (("AWS_SECRET_ACCESS_KEY", wrong), ("AWS_ACCESS_KEY_ID", "AKIANOBODY")):
            monkeypatch.setenv(name, value)
            for told, ask in asked.items():
                with pytest.raises(InputError) as caught:
                    ask()
                text = str(caught.value)
                assert told in text
                assert endpoint in text
                assert secret[:-1] not in text


@pytest.mark.parametrize("key", ["a b/x.parquet", "day=%41/ä+#?.parquet"])
def test_the_end_of_an_object_is_read_with_one_request(
    endpoint: str, bucket: str, key: str
) -> None:
    storage = Stores(S3Settings(endpoint=endpoint)).of("s3://")
    client(endpoint).put_object(Bucket=bucket, Key=key, Body=b"0123456789")
    path = f"s3://{bucket}/{key}"
    tell(endpoint, "requests")
    assert storage.tail(path, 4) == b"6789"
    assert sum(tell(endpoint, "requests").values()) == 1
    assert storage.tail(path, 100) == b"0123456789"


def test_the_end_of_an_object_that_is_missing_or_has_no_byte(endpoint: str, bucket: str) -> None:
    storage = Stores(S3Settings(endpoint=endpoint)).of("s3://")
    client(endpoint).put_object(Bucket=bucket, Key="none", Body=b"")
    assert storage.tail(f"s3://{bucket}/none", 4) == b""
    with pytest.raises(FileNotFoundError):
        storage.tail(f"s3://{bucket}/missing", 4)

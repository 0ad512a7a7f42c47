"""Documents in a folder, object stores and HDFS: the same promises, each on the real thing."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from hybrid_extensions.s3.documents import S3Documents
from hybrid_extensions.servers.azurite import LocalAzurite
from sources.errors import InputError, UnavailableError
from sources.storage.documents import Document, DocumentStore, LocalDocuments
from sources.storage.folder import Folder
from sources.storage.probe import require_writable
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from spark_jobs.run_state.lock import open_lock
from tests.extensions import whole
from tests.services.gcs_server import gcs_server
from tests.services.s3_server import LOGIN, client, s3_server
from tests.services.versitygw import Versitygw

BUCKET = "documents"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as running:
        client(running).create_bucket(Bucket=BUCKET)
        yield running


@pytest.fixture(scope="module")
def versitygw() -> Iterator[str]:
    with Versitygw() as running:
        client(running.endpoint).create_bucket(Bucket=BUCKET)
        yield running.endpoint


@pytest.fixture(scope="module")
def google() -> Iterator[dict[str, str]]:
    with gcs_server() as login:
        yield login


@pytest.fixture(scope="module")
def azure_container(azurite: LocalAzurite) -> str:
    return azurite.create_container("documents")


@pytest.fixture
def container(azurite: LocalAzurite, azure_container: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in azurite.login.items():
        monkeypatch.setenv(name, value)
    return azure_container


@pytest.fixture(
    params=[
        "a folder",
        pytest.param("S3", marks=pytest.mark.slow),
        "versitygw",
        pytest.param("HDFS", marks=[pytest.mark.slow, whole]),
        pytest.param("Azure", marks=[pytest.mark.slow, whole]),
        # A stand-in: the tests show what is sent, and not what Google does.
        pytest.param("Google", marks=whole),
    ]
)
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    if request.param == "a folder":
        return Folder(tmp_path / "state")
    if request.param in {"S3", "versitygw"}:
        for name, value in LOGIN.items():
            monkeypatch.setenv(name, value)
        server = "endpoint" if request.param == "S3" else "versitygw"
        settings = S3Settings(endpoint=request.getfixturevalue(server))
        return Folder(f"s3://{BUCKET}/{uuid.uuid4().hex}", S3Documents(settings))
    if request.param == "Google":
        for name, value in request.getfixturevalue("google").items():
            monkeypatch.setenv(name, value)
        return Stores(S3Settings()).folder(f"gs://lake/{uuid.uuid4().hex}")
    if request.param == "Azure":
        container = request.getfixturevalue("container")
        return Stores(S3Settings()).folder(f"{container}/{uuid.uuid4().hex}")
    namenode = request.getfixturevalue("namenode")
    return Stores(S3Settings()).folder(f"hdfs://{namenode}/{uuid.uuid4().hex}")


@pytest.fixture
def store(folder: Folder) -> DocumentStore:
    return folder.documents


def found(store: DocumentStore, path: str) -> Document:
    document = store.read(path)
    assert document is not None
    return document


def test_a_document_is_there_as_it_was_written(folder: Folder, store: DocumentStore) -> None:
    path = folder.location("a b/ü+%41.json")
    assert (store.read(path), store.exists(path), store.age_ms(path)) == (None, False, None)
    tag = store.put(path, b"one")
    assert (found(store, path).data, found(store, path).tag) == (b"one", tag)
    assert store.exists(path)
    assert 0 <= (store.age_ms(path) or 0) < 60_000
    assert store.put(path, b"two") != tag
    assert found(store, path).data == b"two"
    store.delete(path)
    store.delete(path)
    assert store.read(path) is None


def test_an_empty_document_is_one(folder: Folder, store: DocumentStore) -> None:
    store.put(folder.location("empty"), b"")
    assert found(store, folder.location("empty")).data == b""


def test_of_many_that_create_a_document_one_wins(folder: Folder, store: DocumentStore) -> None:
    for number in range(5):
        path = folder.location(f"{number}.json")
        create = partial(store.put_if_absent, path)
        with ThreadPoolExecutor(8) as pool:
            tags = list(pool.map(create, (b"%d" % n for n in range(8))))
        (winner,) = (n for n, tag in enumerate(tags) if tag is not None)
        assert found(store, path)[:2] == (b"%d" % winner, tags[winner])


def test_whoever_repeats_what_he_wrote_is_told_that_it_is_there(
    folder: Folder, store: DocumentStore
) -> None:
    path = folder.location("a.json")
    tag = store.put_if_absent(path, b"mine")
    assert store.put_if_absent(path, b"mine") == tag
    assert store.put_if_absent(path, b"theirs") is None


def test_a_document_is_replaced_only_as_the_version_that_was_read(
    folder: Folder, store: DocumentStore
) -> None:
    path = folder.location("a.json")
    assert store.replace(path, b"x", "17" if path.startswith("gs://") else '"0"') is None
    first = store.put(path, b"one")
    second = store.replace(path, b"two", first)
    assert second is not None
    assert store.replace(path, b"three", first) is None
    assert found(store, path)[:2] == (b"two", second)
    store.delete(path)
    assert store.replace(path, b"four", second) is None
    assert store.read(path) is None


def test_a_counter_that_many_raise_loses_nothing(folder: Folder, store: DocumentStore) -> None:
    path = folder.location("counter")
    store.put(path, b"0")

    def count(_: int) -> None:
        while True:
            there = found(store, path)
            # What two writers write has to differ, as the interface says.
            more = f"{int(there.data.split()[0]) + 1} {uuid.uuid4().hex}".encode()
            if store.replace(path, more, there.tag) is not None:
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(20)))
    assert found(store, path).data.split()[0] == b"20"


def test_listings_have_all_documents_below_and_folders_by_name(
    folder: Folder, store: DocumentStore
) -> None:
    assert (folder.names("*"), folder.folders(), folder.is_empty()) == ([], [], True)
    for name in ("a.json", "g1/plan.json", "g1/positions/x-end.json", "g10/a", "g1x"):
        folder.replace_bytes(name, name.encode())
    below = ["g1/plan.json", "g1/positions/x-end.json", "g10/a", "g1x"]
    assert folder.names("*") == ["a.json", *below]
    assert folder.names("g1/positions/*-end.json") == ["g1/positions/x-end.json"]
    assert folder.folders() == ["g1", "g10"]
    listed = store.listing(folder.location("g1"))
    assert [each.size for each in listed] == [12, 23]
    assert not folder.is_empty()


def test_what_is_written_on_a_disk_survives_a_power_failure_with_all_folders_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, fsync = set[int](), os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        kept.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    documents = LocalDocuments()
    os.close(open_lock(tmp_path / "locks" / "run" / "query.lock"))
    writes: dict[str, Callable[[str], object]] = {
        "new/run/put.json": lambda path: documents.put(path, b"1"),
        "new/run/absent.json": lambda path: documents.put_if_absent(path, b"2"),
        "locks/run/launch.json": lambda path: documents.put(path, b"3"),
    }
    for name, write in writes.items():
        write(str(tmp_path / name))
        path = tmp_path / name
        # Of each, its content or its names are on the disk.
        for each in (path, *path.parents[: len(Path(name).parents)]):
            assert each.stat().st_ino in kept, each


def test_a_deleted_folder_takes_no_other_along(folder: Folder) -> None:
    for name in ("g1/a", "g1/b/c", "g10/a"):
        folder.replace_bytes(name, b"x")
    folder.folder("g1").delete_all()
    folder.folder("g1").delete_all()
    assert folder.names("*") == ["g10/a"]


def test_a_copy_has_the_content_and_one_that_is_there_stays(
    folder: Folder, store: DocumentStore
) -> None:
    folder.replace_bytes("a/x", b"content")
    store.copy(folder.location("a/x"), folder.location("b/y/x"))
    folder.replace_bytes("a/x", b"later")
    store.copy(folder.location("a/x"), folder.location("b/y/x"))
    folder.delete("a/x")
    assert folder.read_bytes("b/y/x") == b"content"
    with pytest.raises(FileNotFoundError):
        store.copy(folder.location("a/x"), folder.location("b/z"))


def test_of_two_that_copy_a_document_at_once_both_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy, real = tmp_path / "source", tmp_path / "to" / "copy", shutil.copyfile

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    def interrupted(*paths: Path) -> None:
        monkeypatch.setattr(shutil, "copyfile", real)
        real(*paths)
        # Another process copies it now, from the beginning to the end.
        LocalDocuments().copy(str(source), str(copy))

    source.write_bytes(b"content")
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(shutil, "copyfile", interrupted)
    LocalDocuments().copy(str(source), str(copy))
    assert (copy.read_bytes(), os.listdir(copy.parent)) == (b"content", ["copy"])


def test_a_store_reaches_spark_tasks(folder: Folder) -> None:
    folder.replace_bytes("a", b"x")
    again: Folder = pickle.loads(pickle.dumps(folder))
    assert again.read_bytes("a") == b"x"


def test_a_store_that_can_be_written_passes_the_probe(folder: Folder) -> None:
    if folder.url.startswith("gs://"):
        pytest.skip("neither state nor target may be there")
    # Azurite has no accounts with folders, which are looked for last; test_azure.py is about that.
    is_flat = folder.url.startswith("abfss://")
    with pytest.raises(InputError, match="namespace") if is_flat else nullcontext():
        require_writable(folder, "state")
    assert folder.names("*") == []


class _Forgetful(LocalDocuments):
    """A store that ignores conditions, as some of older age do."""

    def put_if_absent(self, path: str, data: bytes) -> str | None:
        return self.put(path, data)


class _Careless(LocalDocuments):
    """A store that knows one condition only."""

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        return self.put(path, data)


@pytest.mark.parametrize("kind", [_Forgetful, _Careless])
def test_a_store_that_ignores_conditions_is_refused_and_nothing_is_left(
    tmp_path: Path, kind: type[LocalDocuments]
) -> None:
    class Elsewhere(Folder):
        @property
        def is_local(self) -> bool:
            return False

    folder = Elsewhere(tmp_path, kind())
    with pytest.raises(InputError, match="ignores the conditions of requests"):
        require_writable(folder, "state")
    assert folder.names("*") == []


@pytest.mark.slow
def test_a_bucket_that_is_missing_is_named_with_the_field(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    folder = Folder("s3://nowhere/state", S3Documents(S3Settings(endpoint=endpoint)))
    with pytest.raises(InputError, match="s3://nowhere/state") as caught:
        require_writable(folder, "sink.path")
    assert "`sink.path` has to be writable" in caught.value.hint


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_told_from_one_that_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    folder = Folder("s3://lake/state", S3Documents(S3Settings(endpoint="http://127.0.0.1:9")))
    with pytest.raises(UnavailableError, match="can't be written"):
        require_writable(folder, "state")

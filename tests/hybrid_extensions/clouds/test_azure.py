"""Files in Azure Blob Storage, on a real Azurite: listed, planned, read, and what is refused."""

from __future__ import annotations

import json
import pickle
import uuid
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.clouds.files import connect, split
from hybrid_extensions.servers.azurite import KEY, LocalAzurite
from sources.errors import InputError, UnavailableError
from sources.storage.base import Storage
from sources.storage.folder import Folder
from sources.storage.listing import find_files
from sources.storage.probe import require_writable
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from sources.storage.tables.delta import delta_table, is_delta_table
from sources.storage.tables.delta_log import commit_name

pytestmark = pytest.mark.slow
WRONG_KEY = "d3Jvbmc="


# A worker that comes back to this module finds the same server.
@pytest.fixture(scope="session")
def created(azurite: LocalAzurite) -> str:
    azurite.create_container("other")
    return azurite.create_container("files")


@pytest.fixture
def place(azurite: LocalAzurite, created: str, monkeypatch: pytest.MonkeyPatch) -> Folder:
    for name, value in azurite.login.items():
        monkeypatch.setenv(name, value)
    return Stores(S3Settings()).folder(f"{created}/{uuid.uuid4().hex}")


@pytest.fixture
def storage(place: Folder) -> Storage:
    return Stores(S3Settings()).of(place.url)


def put(folder: Folder, name: str, data: bytes, **metadata: str) -> str:
    path = folder.location(name)
    obstore.put(connect(path), split(path)[1], data, attributes={**metadata})
    return path


def test_folders_and_files_are_listed_and_examined(place: Folder, storage: Storage) -> None:
    here = [put(place, name, name.encode()) for name in ("a b.json", "ü+%41.json")]
    put(place, "sub/c.json", b"c")
    found = storage.children(place.url)
    assert found.folders == [place.location("sub")]
    assert found.files["path"].to_pylist() == here
    assert found.files["size"].to_pylist() == [8, 11]
    again: Storage = pickle.loads(pickle.dumps(storage))
    one, none, folder, other = again.stat(
        [here[0], place.location("x"), place.location("sub"), here[1]]
    )
    assert (none, folder) == (None, None)
    assert [one._asdict(), other._asdict()] == found.files.to_pylist()  # type: ignore[union-attr]
    assert storage.children(place.location("nothing")).files.num_rows == 0
    assert storage.uri(here[0]).endswith("/a%20b.json")


def test_objects_that_stand_for_folders_are_no_files(place: Folder, storage: Storage) -> None:
    # As an account with folders, or another client, has them.
    put(place, "sub", b"", hdi_isfolder="true")
    put(place, "sub/empty", b"")
    found = storage.children(place.url)
    assert (found.folders, found.files.num_rows) == ([place.location("sub")], 0)
    folder, empty = storage.stat([place.location("sub"), place.location("sub/empty")])
    assert folder is None
    assert empty is not None
    place.folder("sub").delete_all()
    assert not place.exists("sub")


def test_a_file_is_read_at_any_position_in_few_requests(place: Folder, storage: Storage) -> None:
    rows = pa.table({"id": list(range(300_000)), "text": [f"row {n}" for n in range(300_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=100_000)
    path = put(place, "a.parquet", sink.getvalue().to_pybytes())
    with storage.open(path) as file:
        assert pq.ParquetFile(file).read_row_group(1).equals(rows.slice(100_000, 100_000))
    with storage.open(path) as file:
        file.seek(file.size() - 4)
        assert (file.read(10), file.read(1)) == (b"PAR1", b"")
    with pytest.raises(FileNotFoundError):
        storage.open(place.location("b.parquet"))


def test_a_file_that_is_written_over_while_it_is_read_is_an_error(
    place: Folder, storage: Storage
) -> None:
    path = put(place, "a", b"x" * 3_000_000)
    with storage.open(path) as file:
        assert file.read(2) == b"xx"
        put(place, "a", b"y" * 3_000_000)
        file.seek(2_000_000)
        with pytest.raises(OSError, match="was written over while it was read"):
            file.read(2)


def test_globs_are_matched_below_their_folders(place: Folder) -> None:
    wanted = [put(place, f"day={day}/a.json", b"{}") for day in (1, 2)]
    put(place, "day=2/_b.json", b"{}")
    put(place, "week=1/a.json", b"{}")
    found = find_files("history", [place.location("day=*/*.json")], Path("/"), Stores(S3Settings()))
    assert sorted(found["path"].to_pylist()) == wanted


def test_a_copy_in_another_container_has_the_content(place: Folder, azurite: LocalAzurite) -> None:
    path = put(place, "a", b"content")
    to = path.replace("files@", "other@")
    place.documents.copy(path, to)
    found = place.documents.read(to)
    assert found is not None
    assert found.data == b"content"


def test_all_are_deleted_also_if_another_deletes_some(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [put(place, f"a/{number}", b"") for number in range(3)]
    delete = obstore.delete

    def end_early(store: Any, keys: list[str]) -> None:
        if len(keys) > 1:
            raise FileNotFoundError(keys[0])
        delete(store, keys)

    monkeypatch.setattr(obstore, "delete", end_early)
    place.delete(paths[0].rpartition("/")[2])
    place.delete_all()
    assert [path for path in paths if place.documents.exists(path)] == []


class TestDelta:
    def test_delta_rs_reads_what_it_and_others_commit(self, place: Folder) -> None:
        table, options = place.folder("table"), place.documents.delta_options
        assert not is_delta_table(table)
        write_deltalake(table.url, pa.table({"id": [1, 2]}), storage_options=options)
        own = json.dumps({"commitInfo": {"operation": "own"}}).encode()
        assert table.documents.put_if_absent(table.location(commit_name(1)), own) is not None
        write_deltalake(table.url, pa.table({"id": [3]}), mode="append", storage_options=options)
        assert delta_table(table).version() == 2
        assert sorted(delta_table(table).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
        # Whoever comes second is told, whichever of the two it is.
        assert table.documents.put_if_absent(table.location(commit_name(2)), own) is None

    def test_a_commit_of_ours_is_not_written_over_by_delta_rs(self, place: Folder) -> None:
        table, options = place.folder("table"), place.documents.delta_options
        write_deltalake(table.url, pa.table({"id": [1]}), storage_options=options)
        late = DeltaTable(table.url, storage_options=options)
        own = json.dumps({"commitInfo": {"operation": "own"}}).encode()
        table.documents.put_if_absent(table.location(commit_name(1)), own)
        write_deltalake(late, pa.table({"id": [2]}), mode="append")
        assert table.read_bytes(commit_name(1)) == own
        assert delta_table(table).version() == 2


class TestWhatMayHoldAStateOrTarget:
    def test_an_account_without_folders_is_refused_and_nothing_is_left(self, place: Folder) -> None:
        with pytest.raises(InputError, match="has no hierarchical namespace") as caught:
            require_writable(place, "sink.path")
        assert caught.value.fields["field"] == "sink.path"
        assert place.is_empty()

    def test_an_account_with_folders_is_not(
        self, place: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = place.documents.put

        def write_below_folder(path: str, data: bytes) -> str:
            folder, _, name = path.rpartition("/")[0].rpartition("/")
            put(Folder(folder, place.documents), name, b"", hdi_isfolder="true")
            return write(path, data)

        monkeypatch.setattr(place.documents, "put", write_below_folder)
        require_writable(place, "state")
        assert place.is_empty()


class TestRefusals:
    def test_a_container_that_is_missing_is_no_empty_one(
        self, place: Folder, storage: Storage
    ) -> None:
        path = place.url.replace("files@", "nowhere@")
        documents = place.documents
        for call in (
            lambda: storage.children(path),
            lambda: documents.listing(path),
            lambda: documents.read(f"{path}/a"),
            lambda: documents.put(f"{path}/a", b""),
            lambda: documents.put_if_absent(f"{path}/a", b""),
            lambda: documents.replace(f"{path}/a", b"", '"0"'),
        ):
            with pytest.raises(InputError, match=r"nowhere@.*404 Not Found, ContainerNotFound"):
                call()

    def test_a_wrong_key_is_named_and_not_shown(
        self, place: Folder, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", WRONG_KEY)
        for call in (
            lambda: storage.children(place.url),
            lambda: list(storage.stat([place.location("a")])),
            lambda: storage.open(place.location("a")),
            lambda: place.documents.put_if_absent(place.location("a"), b""),
        ):
            with pytest.raises(InputError, match="403 Forbidden") as caught:
                call()
            assert "AZURE_STORAGE_ACCOUNT_KEY" in caught.value.hint
            assert not any(key in str(caught.value) for key in (KEY, WRONG_KEY))

    def test_the_signature_of_a_shared_access_is_not_shown(
        self, place: Folder, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2021-08-06&sr=c&sp=r&sig=c2VjcmV0")
        for endpoint in (None, "http://127.0.0.1:9/devstoreaccount1"):
            if endpoint is not None:
                monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
            with pytest.raises((InputError, UnavailableError)) as caught:
                storage.children(place.url)
            assert "c2VjcmV0" not in str(caught.value)

    def test_a_store_that_does_not_answer_is_told_from_one_that_refuses(
        self, place: Folder, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:9/devstoreaccount1")
        with pytest.raises(
            UnavailableError, match=r"can't be listed at http://127.0.0.1:9/"
        ) as caught:
            storage.children(place.url)
        # A URL's query may hold a signature.
        assert "?" not in caught.value.message
        with pytest.raises(UnavailableError, match="can't be written"):
            place.documents.put_if_absent(place.location("a"), b"")

    @pytest.mark.parametrize("path", ["abfss://files/a", "abfss://@acc/a", "gs:///a"])
    def test_a_path_without_its_container_is_refused(self, path: str) -> None:
        with pytest.raises(InputError, match="does not name a container"):
            Stores(S3Settings()).of(path).children(path)

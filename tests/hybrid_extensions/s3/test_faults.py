"""Documents in an object store whose network loses requests and answers, and repeats them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.s3.bucket_rules import bucket_warnings
from hybrid_extensions.s3.documents import S3Documents
from sources.errors import UnavailableError
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from sources.storage.tables.delta import delta_table, is_delta_table
from tests.services.processes import wait_for
from tests.services.s3_server import LOGIN, STORES, client, s3_server, tell

pytestmark = pytest.mark.slow
KINDS = ("refuse", "lose request", "lose answer", "cut answer", "repeat")
SHARES = dict.fromkeys(KINDS, 0.05)


@pytest.fixture(scope="module", params=STORES)
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with s3_server(request.param) as running:
        client(running).create_bucket(Bucket="lake")
        yield running


@pytest.fixture
def folder(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    yield Folder("s3://lake/state", S3Documents(S3Settings(endpoint=endpoint)))
    tell(endpoint, "faults")


def test_of_many_that_create_a_document_one_wins_whatever_the_network_does(
    endpoint: str, folder: Folder
) -> None:
    tell(endpoint, "faults", seed=1, shares=SHARES)
    for number in range(20):
        path = folder.location(f"{number}.json")

        def create(who: int, path: str = path) -> str | None:
            return folder.documents.put_if_absent(path, f"{who}".encode())

        with ThreadPoolExecutor(4) as pool:
            tags = list(pool.map(create, range(4)))
        (winner,) = (who for who, tag in enumerate(tags) if tag is not None)
        assert folder.read_bytes(f"{number}.json") == f"{winner}".encode()


def test_of_many_that_append_to_a_document_none_is_lost_and_none_overwrites_another(
    endpoint: str, folder: Folder
) -> None:
    folder.replace_bytes("names", b"")
    tell(endpoint, "faults", seed=2, shares=SHARES)

    def append(who: int) -> None:
        while True:
            there = folder.document("names")
            assert there is not None
            # A refusal does not mean that the change never took place: its answer may have been
            # lost, and a rival may have written after it.
            if f"{who}".encode() in there.data.split():
                return
            more = there.data + f" {who}".encode()
            if folder.documents.replace(folder.location("names"), more, there.tag) is not None:
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(40)))
    tell(endpoint, "faults")
    names = (folder.read_bytes("names") or b"").split()
    assert sorted(int(name) for name in names) == list(range(40))


def test_a_document_that_is_held_back_does_not_overwrite_a_rivals(
    endpoint: str, folder: Folder
) -> None:
    tell(endpoint, "faults", hold="^PUT .*late")
    tags: list[str | None] = []
    path = folder.location("late.json")
    late = threading.Thread(
        target=lambda: tags.append(folder.documents.put_if_absent(path, b"late"))
    )
    late.start()
    wait_for(lambda: tell(endpoint, "held"), "the request is held back", 30)
    assert folder.documents.put_if_absent(path, b"rival") is not None
    tell(endpoint, "free")
    late.join()
    assert tags == [None]
    assert folder.read_bytes("late.json") == b"rival"


def test_however_many_requests_were_lost_before_a_lost_one_is_asked_again(
    endpoint: str, folder: Folder
) -> None:
    # Most of what a supervision asks for is not there: no switch is under way, no stop requested.
    tell(endpoint, "faults", seed=5, shares={"lose request": 0.1})
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(folder.read_bytes, ["switch.json"] * 1_500))
    assert found == [None] * 1_500


def test_an_answer_that_is_cut_off_is_no_empty_listing(endpoint: str, folder: Folder) -> None:
    stores = Stores(S3Settings(endpoint=endpoint))
    place = "s3://lake/listed"
    for number in range(10):
        folder.documents.put(f"{place}/in/{number}", b"content")
    tell(endpoint, "faults", seed=3, shares={"cut answer": 0.3})
    for _ in range(20):
        assert len(folder.documents.listing(f"{place}/in")) == 10
        assert folder.documents.folders(place) == ["in"]
        assert stores.of(place).children(f"{place}/in").files.num_rows == 10
        assert stores.of(place).tail(f"{place}/in/3", 4) == b"tent"
    tell(endpoint, "faults", shares={"cut answer": 1.0})
    with pytest.raises(UnavailableError, match="0 read, but total bytes expected"):
        folder.documents.listing(f"{place}/in")


def test_an_answer_that_is_damaged_is_asked_for_again(endpoint: str, folder: Folder) -> None:
    folder.replace_bytes("whole", b"content")
    tell(endpoint, "faults", seed=6, shares={"damage answer": 0.3})
    assert [folder.read_bytes("whole") for _ in range(20)] == [b"content"] * 20
    tell(endpoint, "faults", shares={"damage answer": 1.0})
    with pytest.raises(UnavailableError, match="did not match calculated checksum"):
        folder.read_bytes("whole")


def test_what_a_store_lacks_is_asked_for_once(endpoint: str, folder: Folder) -> None:
    tell(endpoint, "faults", shares={"lack": 1.0})
    tell(endpoint, "requests")
    assert bucket_warnings(S3Settings(endpoint=endpoint), folder, "state") == []
    # For its rules, its versions and its locks.
    assert sum(tell(endpoint, "requests").values()) == 3


def test_a_table_is_opened_although_answers_are_cut_off(endpoint: str, folder: Folder) -> None:
    table = folder.folder("table")
    rows = pa.table({"id": [1, 2, 3]})
    write_deltalake(table.url, rows, storage_options=table.documents.delta_options)
    tell(endpoint, "faults", seed=4, shares={"cut answer": 0.1})
    for _ in range(20):
        assert is_delta_table(table)
        assert delta_table(table).version() == 0

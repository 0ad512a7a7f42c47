"""Documents in an object store whose network loses requests and answers, and repeats them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sources.storage.folder import Folder
from sources.storage.s3_documents import S3Documents
from sources.storage.settings import S3Settings
from tests.services.processes import wait_for
from tests.services.s3_server import LOGIN, client, s3_server, tell

pytestmark = pytest.mark.slow
SHARES = {"refuse": 0.05, "lose request": 0.05, "lose answer": 0.05, "repeat": 0.05}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as running:
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

"""Files in Google Cloud Storage, on a stand-in that sends what Google documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sources.errors import UnavailableError
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.services.gcs_server import gcs_server


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    with gcs_server() as login:
        for name, value in login.items():
            monkeypatch.setenv(name, value)
        yield Stores(S3Settings()).folder("gs://lake/in")


def test_files_are_listed_examined_and_read(place: Folder) -> None:
    for name in ("a b", "sub/c"):
        place.replace_bytes(name, name.encode())
    storage = Stores(S3Settings()).of(place.url)
    found = storage.children(place.url)
    assert (found.folders, found.files["path"].to_pylist()) == (
        ["gs://lake/in/sub"],
        ["gs://lake/in/a b"],
    )
    file, none = storage.stat(["gs://lake/in/a b", "gs://lake/in/x"])
    assert (none, storage.uri("gs://lake/in/a b")) == (None, "gs://lake/in/a%20b")
    assert file is not None
    assert (file.size, file.etag) == (3, found.files["etag"][0].as_py())
    with storage.open("gs://lake/in/a b") as opened:
        opened.seek(2)
        assert opened.read() == b"b"


def test_a_store_that_does_not_answer_is_an_outage(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.replace_bytes("a", b"")
    monkeypatch.setenv("GOOGLE_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(UnavailableError, match=r"gs://lake/in/a can't be read at http://127.0"):
        place.read_bytes("a")

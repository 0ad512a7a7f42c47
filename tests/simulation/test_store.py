"""The simulated store and the real ones: the same requests, the same answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from hybrid_extensions.s3.documents import S3Documents
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.extensions import whole
from tests.services.s3_server import LOGIN, client, s3_server
from tests.simulation.kernel import Kernel, running
from tests.simulation.store import SimulatedDocuments, Store
from tests.simulation.topic import Topic
from tests.simulation.world import Weather, World, enter

PATHS = st.sampled_from(["a.json", "f/b.json", "f/g/c.json", "f/g/d.json", "h/e.json"])
FOLDERS = st.sampled_from(["", "f", "f/g", "h", "nowhere"])
BUCKET = "simulated"


class SameAnswers(RuleBasedStateMachine):
    """Asks both stores for the same."""

    real: Folder

    def __init__(self) -> None:
        super().__init__()
        self.there = self.real.folder(uuid.uuid4().hex)
        self.here = Folder(self.there.url, SimulatedDocuments())
        self.contents: list[bytes] = []
        self.tags: dict[str, list[tuple[str, str]]] = {}
        self.stack = ExitStack()
        self.stack.enter_context(running(Kernel(0)))
        enter(World(Store(), Topic(), Weather()))

    def teardown(self) -> None:
        self.there.delete_all()
        enter(None)
        self.stack.close()

    def content(self) -> bytes:
        """Return a content that no document has had: tags of equal ones may be equal or not."""
        self.contents.append(f"{len(self.contents)}".encode())
        return self.contents[-1]

    def written(self, path: str, tags: list[str | None]) -> None:
        here, there = tags
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            self.tags.setdefault(path, []).append((here, there))

    def places(self, path: str) -> list[Folder]:
        return [self.here, self.there]

    @rule(path=PATHS)
    def put(self, path: str) -> None:
        data = self.content()
        both = [each.documents.put(each.location(path), data) for each in self.places(path)]
        self.written(path, [*both])

    @rule(path=PATHS, is_same=st.booleans())
    def put_if_absent(self, path: str, is_same: bool) -> None:
        found = self.here.read_bytes(path)
        data = found if is_same and found is not None else self.content()
        both = [
            each.documents.put_if_absent(each.location(path), data) for each in self.places(path)
        ]
        self.written(path, both)

    @rule(path=PATHS, back=st.integers(1, 3))
    def replace(self, path: str, back: int) -> None:
        known = self.tags.get(path, [])
        if len(known) < back:
            return
        data, tags = self.content(), known[-back]
        both = [
            each.documents.replace(each.location(path), data, tag)
            for each, tag in zip(self.places(path), tags, strict=True)
        ]
        self.written(path, both)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        for each in self.places(path):
            each.documents.delete(each.location(path))

    @rule(folder=FOLDERS)
    def delete_folder(self, folder: str) -> None:
        if folder:
            for each in self.places(folder):
                each.folder(folder).delete_all()

    @rule(source=PATHS, path=PATHS)
    def copy(self, source: str, path: str) -> None:
        if self.here.exists(source) and not self.here.exists(path):
            for each in self.places(path):
                each.documents.copy(each.location(source), each.location(path))

    @rule(path=PATHS)
    def read(self, path: str) -> None:
        here, there = (each.document(path) for each in self.places(path))
        assert (here and here.data) == (there and there.data)
        assert self.here.exists(path) == self.there.exists(path)
        ages = [each.documents.age_ms(each.location(path)) for each in self.places(path)]
        assert [age is None for age in ages] == [here is None] * 2

    @rule(folder=FOLDERS)
    def look(self, folder: str) -> None:
        here, there = (
            [(entry.path, entry.size) for entry in each.documents.listing(each.location(folder))]
            for each in self.places(folder)
        )
        assert here == there
        # An empty folder is one on a file system alone.
        full = [
            name
            for name in self.there.folder(folder).folders()
            if not self.there.folder(folder).folder(name).is_empty()
        ]
        assert self.here.folder(folder).folders() == full


def compare(real: Folder, examples: int) -> None:
    SameAnswers.real = real
    profile = settings(max_examples=examples, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(SameAnswers, settings=profile)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    with s3_server() as endpoint:
        client(endpoint).create_bucket(Bucket=BUCKET)
        yield Folder(f"s3://{BUCKET}/all", S3Documents(S3Settings(endpoint=endpoint)))


def test_the_simulated_store_answers_as_a_folder_does(tmp_path: Path) -> None:
    compare(Folder(tmp_path), 40)


@pytest.mark.slow
def test_the_simulated_store_answers_as_s3_does(bucket: Folder) -> None:
    compare(bucket, 5)


@whole
@pytest.mark.slow
def test_the_simulated_store_answers_as_hdfs_does(namenode: str) -> None:
    compare(Stores(S3Settings()).folder(f"hdfs://{namenode}/simulated"), 5)

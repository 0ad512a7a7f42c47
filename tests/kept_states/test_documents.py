"""Today's models read every document that an earlier version has left, as it was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("hybrid_extensions.cuts", reason="it has each kind of document")

from sources.common.state_document import Record
from tests.extensions import whole
from tests.kept_states.archives import HOME, kept_states, this_version
from tests.kept_states.documents import documents, read_samples, sampled_versions
from tests.sources.common.test_versions import KINDS

NAMES = {kind.__name__: kind for kind in KINDS}
KEPT = kept_states()


def lacking(document: Any, read: Any) -> Any:
    """The parts of a document that are not, or otherwise, in what was read of it."""
    if isinstance(document, dict) and isinstance(read, dict):
        parts = {key: lacking(value, read.get(key)) for key, value in document.items()}
        return {key: part for key, part in parts.items() if part is not None} or None
    if isinstance(document, list) and isinstance(read, list) and len(document) == len(read):
        items = [lacking(*each) for each in zip(document, read, strict=True)]
        return items if any(item is not None for item in items) else None
    return None if document == read else document


def require_read(kind: type[Record], content: bytes) -> None:
    """Its model reads a document, and every value of it is there; others have their defaults."""
    read = kind.parse(content).model_dump(mode="json")
    assert lacking(json.loads(content), json.loads(json.dumps(read))) is None


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: f"{kept.version}-{kept.name}")
def test_every_document_of_a_kept_state_is_read(kept: Any) -> None:
    count = 0
    for name, kind, content in documents(kept):
        assert kind is not None, f"no kind is known of {name}"
        require_read(kind, content)
        count += 1
    assert count > 10


@whole
@pytest.mark.parametrize("version", sampled_versions())
def test_a_document_of_each_kind_that_no_state_has_is_read(version: str) -> None:
    for name, document in read_samples(version):
        require_read(NAMES[name], json.dumps(document).encode())


@whole
def test_of_this_version_a_document_of_each_kind_is_kept() -> None:
    if this_version() not in sampled_versions():
        pytest.skip("the states of a version are made for its release")
    of_states = {
        kind for kept in KEPT if kept.version == this_version() for _, kind, _ in documents(kept)
    }
    of_samples = {NAMES[name] for name, _ in read_samples(this_version())}
    assert set(KINDS) - of_states - of_samples == set()


def test_the_page_of_versions_says_of_each_kept_state_that_it_is_resumed() -> None:
    page = (HOME.parents[1] / "docs" / "versions.md").read_text()
    (head,) = (line for line in page.splitlines() if line.startswith("| state | "))
    versions = [name.strip().replace(" by Spark ", "-spark") for name in head.split("|")[2:-1]]
    told = set()
    for line in page.partition(head)[2].partition("\n\n")[0].splitlines()[2:]:
        name, *cells = (cell.strip() for cell in line.split("|")[1:-1])
        state = name.partition("`: ")[0].strip("`")
        told |= {(of, state) for of, cell in zip(versions, cells, strict=True) if cell == "exact"}
    assert told == {(kept.version, kept.name) for kept in KEPT}

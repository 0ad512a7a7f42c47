"""A document that a newer version wrote is refused by name, before anything is touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch.lock import SwitchHolder
from orchestration.supervision import controls
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError
from sources.state.action_log import Action, ActionEnd
from spark_jobs.inside.query.seam.row_cache import KeptRows
from spark_jobs.inside.readers.files.kept_batch import KeptBatch
from spark_jobs.jvm.spark_version import DEFAULT, SUPPORTED
from tests.e2e.upgrade.resumed import Resumed
from tests.kept_states.archives import Kept, kept_states, this_version, unpack
from tests.kept_states.documents import documents

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

# What people do next in each state.
NEXT: Mapping[str, Callable[[LoadedPipeline], object]] = {
    "live": controls.resume,
    "paused": controls.resume,
    "half_promoted": promotion.finish,
}
# What is there for people alone, and what the tasks of a driver read.
READ_LATER = {Action, ActionEnd, KeptRows, KeptBatch, SwitchHolder}
# Replaced by the promotion, whatever it says.
UNREAD = {("half_promoted", "g2/run/requested.json")}
# The generation that a promotion replaces, which a rollback reads.
REPLACED: Mapping[str, str | tuple[str, ...]] = {"live": (), "paused": (), "half_promoted": "g1/"}


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark that notes in this file that it was started, and ends."""
    home, noted = tmp_path / "spark", tmp_path / "started"
    (home / "bin").mkdir(parents=True)
    (home / "jars").mkdir()
    (home / "jars" / f"spark-core_2.13-{SUPPORTED[DEFAULT].spark}.jar").touch()
    program = home / "bin" / "spark-submit"
    program.write_text(f"#!/bin/sh\necho started >> {noted}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    return noted


@pytest.mark.parametrize(
    "kept",
    [each for each in kept_states() if each.name in NEXT and each.version == this_version()],
    ids=lambda kept: kept.name,
)
def test_each_kind_of_document_is_refused_by_its_name_before_anything_is_touched(
    kept: Kept, state: Resumed, started: Path
) -> None:
    told: dict[str, str] = {}
    for name, kind, content in documents(kept):
        assert kind is not None
        is_unread = (kept.name, name) in UNREAD or name.startswith(REPLACED[kept.name])
        if is_unread or kind in READ_LATER:
            continue
        path = state.folder / "state" / kept.name / name
        document = json.loads(content)
        path.write_text(json.dumps({**document, "version": document["version"] + 1}))
        before = contents(state.folder)
        try:
            NEXT[kept.name](state.loaded)
            told[name] = "nothing was refused"
        except StateError as refused:
            if "can't be read: it has version" not in str(refused):
                told[name] = f"StateError {refused}"
            elif str(path) not in str(refused):
                told[name] = "its file is not named"
        except HybridError as error:
            told[name] = repr(error)
        if started.exists():
            told[name] = f"Spark was started: {told.get(name)}"
            started.unlink()
        after = contents(state.folder)
        if changed := [each for each in {**before, **after} if before.get(each) != after.get(each)]:
            told[name] = f"{told.get(name, 'refused')}, after a change of {changed}"
            shutil.rmtree(state.folder)
            unpack(kept, state.folder)
        path.write_bytes(content)
    assert told == {}


def contents(folder: Path) -> dict[str, bytes]:
    """Each file below a folder, but for locks, and the note of who holds one."""
    return dict(_files(folder))


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".lock" and path.name != SwitchHolder.NAME:
            yield str(path.relative_to(folder)), path.read_bytes()

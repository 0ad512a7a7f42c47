"""The state folder: put-if-absent, versions, generations."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sources.common.positions import EndPosition
from sources.common.times import now_ms
from sources.errors import StateError
from sources.state.generation import (
    digests,
    is_there,
    make_generation,
    mark_removed,
    open_generation,
    read_generation,
    remove_generation,
)
from sources.storage.documents import Document, LocalDocuments
from sources.storage.folder import Folder
from tests.services.small_disk import small_disk


def end(rows: int) -> EndPosition:
    return EndPosition(
        source="history",
        event_time_ms=1,
        complete_through_ms=1,
        event_times="exact",
        splits=1,
        rows=rows,
    )


def test_a_document_comes_back_as_it_was_written(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.read("a/end.json", EndPosition) is None
    folder.put_if_absent("a/end.json", end(5))
    assert folder.read("a/end.json", EndPosition) == end(5)


def test_of_two_writers_one_wins_and_both_are_told_so(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: folder.put_if_absent("end.json", end(n)), range(64)))
    assert len({answer.rows for answer in answers}) == 1
    assert folder.read("end.json", EndPosition) == answers[0]
    assert os.listdir(tmp_path) == ["end.json"]


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    document = json.loads(end(1).model_dump_json())
    (tmp_path / "end.json").write_text(json.dumps({**document, "version": 99}))
    with pytest.raises(StateError, match=r"/end\.json can't be read"):
        Folder(tmp_path).read("end.json", EndPosition)


def test_a_generation_is_made_once_and_found_again(tmp_path: Path) -> None:
    contract: dict[str, object] = {"transform": "a:b"}
    assert open_generation(Folder(tmp_path / "p"), contract, create=False) is None
    made = open_generation(Folder(tmp_path / "p"), contract, create=True)
    found = open_generation(Folder(tmp_path / "p"), contract, create=True)
    assert made is not None
    assert found is not None
    assert made.info == found.info
    assert made.checkpoint.root == tmp_path / "p" / "g1" / "checkpoint"


def test_a_generation_that_is_a_copy_of_another_one_is_refused(tmp_path: Path) -> None:
    """Both would have one transaction id, by which each takes the other's batches for written."""
    home = Folder(tmp_path / "p")
    make_generation(home, "g1", {})
    shutil.copytree(tmp_path / "p" / "g1", tmp_path / "p" / "g2")
    with pytest.raises(StateError, match=r"g2/generation\.json is of generation g1, not of g2"):
        read_generation(home, "g2")
    assert read_generation(home, "g1").name == "g1"


def test_two_pipelines_never_share_a_transaction_id(tmp_path: Path) -> None:
    ids = set()
    for number in range(3):
        made = open_generation(Folder(tmp_path / str(number) / "p"), {}, create=True)
        assert made is not None
        ids.add(made.info.transaction_id)
    assert len(ids) == 3


def test_a_changed_declaration_is_refused_by_the_name_of_its_field(tmp_path: Path) -> None:
    open_generation(Folder(tmp_path / "p"), {"transform": "a:b", "key": ["id"]}, create=True)
    with pytest.raises(StateError, match="`transform` of pipeline `p` changed"):
        open_generation(Folder(tmp_path / "p"), {"transform": "a:c", "key": ["id"]}, create=False)


def test_a_url_without_its_store_is_no_folder_of_this_machine() -> None:
    with pytest.raises(ValueError, match="s3://bucket/state"):
        Folder("s3://bucket/state/p")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StateError, match="can't be written"):
        Folder(tmp_path).put_if_absent("end.json", end(1))


def test_a_path_that_can_not_be_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="can't be written"):
        Folder(tmp_path / "file").put_if_absent("end.json", end(1))


def test_a_folder_that_is_no_state_is_not_called_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = Folder(tmp_path / "file")
    with pytest.raises(StateError, match=f"^The state folder {folder} can't be written"):
        folder.replace_bytes("a", b"")
    with pytest.raises(StateError, match=f"^The snapshot's folder {folder} can't be written"):
        folder.called("snapshot's folder").replace_bytes("a", b"")


def test_what_is_in_the_way_of_writing_is_told_without_writing(tmp_path: Path) -> None:
    assert Folder(tmp_path).obstacle() is None
    told = Folder(tmp_path / "absent").obstacle()
    assert told is not None
    assert "can't be accessed: No such file or directory" in told


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_it_would_be_made_in(
    tmp_path: Path,
) -> None:
    Folder(tmp_path / "a" / "b").require_no_obstacle()
    assert not (tmp_path / "a").exists()
    with small_disk(tmp_path / "disk", "1m") as disk:
        disk.fill()
        told = f"/a/b can't be written: the disk of the state folder {disk.folder} is full. Free"
        with pytest.raises(StateError, match=told):
            Folder(disk.folder / "a" / "b").require_no_obstacle()


def test_only_a_full_disk_may_be_written_again_by_itself(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        for change, is_transient in ((disk.fill, True), (lambda: disk.remount("ro"), False)):
            change()
            with pytest.raises(StateError, match="can't be written") as refused:
                Folder(disk.folder / "state").replace_bytes("a", bytes(8192))
            assert refused.value.transient is is_transient


def test_a_document_that_is_removed_while_it_is_written_is_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise FileExistsError

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StateError, match=r"end.json was removed .* Try again"):
        Folder(tmp_path).put_if_absent("end.json", end(1))


def test_which_generation_is_the_newest_is_never_guessed(tmp_path: Path) -> None:
    home = Folder(tmp_path / "p")
    made = open_generation(home, {}, create=True)
    assert made is not None
    home.delete("current.json")
    again = open_generation(home, {}, create=True)
    assert again is not None
    assert again.info == made.info, "nothing was read yet"
    home.delete("current.json")
    made.replace_bytes("checkpoint/offsets/0", b"v1")
    for create in (True, False):
        with pytest.raises(
            StateError, match=r"current\.json is missing, .*has run \(generation g1"
        ):
            open_generation(home, {}, create=create)
    for later in ("g9", "g10"):
        home.folder(later).replace_bytes("checkpoint/offsets/0", b"v1")
    with pytest.raises(StateError, match=r"\(generation g1, g9, g10\).*\"generation\": \"g10\""):
        open_generation(home, {}, create=False)


class OneByOne(LocalDocuments):
    """A store in which a folder can't be deleted in one step."""

    deletes_at_once = False


def test_a_generation_is_removed_file_by_file_and_what_has_to_stay_stays(tmp_path: Path) -> None:
    home = Folder(tmp_path / "p", OneByOne())
    made = make_generation(home, "g1", {})
    for name in ("plan.json", "checkpoint/offsets/0", "run/lease.json"):
        made.replace_bytes(name, b"{}")
    remove_generation(home, "g1", keep=["run/lease.json"])
    assert made.names("*") == ["run/lease.json"]
    assert not is_there(home, "g1")
    # One that a crash left half removed is gone, and can be made again.
    other = make_generation(home, "g2", {})
    other.replace_bytes("plan.json", b"{}")
    mark_removed(home, "g2")
    assert not is_there(home, "g2")
    new = make_generation(home, "g2", {})
    assert is_there(home, "g2")
    assert new.info.transaction_id != other.info.transaction_id
    assert new.names("*") == ["generation.json"]


def test_files_are_found_by_folder_and_pattern_and_a_folder_knows_where_it_lies(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    for name in ("a/1-end.json", "a/2-start.json", "ab/3-end.json", "4-end.json"):
        folder.replace_bytes(name, b"{}")
    assert folder.names("a/*-end.json") == ["a/1-end.json"]
    assert folder.names("a*/*-end.json") == ["a/1-end.json", "ab/3-end.json"]
    assert folder.names("*-end.json") == ["4-end.json", "a/1-end.json", "ab/3-end.json"]
    assert folder.folder("a/b").name_in(folder) == "a/b"
    assert folder.folder("ab").name_in(folder.folder("a")) is None
    assert folder.name_in(folder) is None
    assert (folder.pace_s, folder.poll_s) == (0, 0)


def test_digests_are_those_that_earlier_versions_have_kept() -> None:
    """Whoever upgrades would otherwise be told that the whole declaration changed."""
    assert digests({"sink": {"y": [1], "x": 2}}) == {"sink": "93a0bd3ccb64df11"}


def test_a_document_is_as_old_as_the_clock_of_the_disk_says(tmp_path: Path) -> None:
    path, at_s = tmp_path / "a.json", 1_704_067_200
    path.write_bytes(b"{}")
    os.utime(path, (at_s, at_s))
    found = LocalDocuments().read(str(path))
    assert found is not None
    assert found.modified_ms == at_s * 1000
    before = now_ms()
    age_ms = LocalDocuments().age_ms(str(path))
    assert age_ms is not None
    assert before - at_s * 1000 <= age_ms <= now_ms() - at_s * 1000


@pytest.mark.parametrize(
    ("number", "may_pass"), [(errno.EACCES, False), (errno.EISDIR, False), (errno.ESTALE, True)]
)
def test_a_document_that_can_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, may_pass: bool
) -> None:
    def refuse(_: LocalDocuments, path: str) -> Document | None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(LocalDocuments, "read", refuse)
    with pytest.raises(StateError, match=f"^File {tmp_path}/end.json can't be read: ") as seen:
        Folder(tmp_path).read("end.json", EndPosition)
    assert os.strerror(number) in str(seen.value)
    assert seen.value.transient is may_pass


@pytest.mark.parametrize(
    "look",
    [Folder.folders, Folder.is_empty, lambda folder: folder.names("*")],
    ids=["folders", "is_empty", "names"],
)
def test_a_folder_that_can_not_be_listed_is_named_with_the_way_out(
    tmp_path: Path, look: Callable[[Folder], object]
) -> None:
    ring = tmp_path / "ring"
    ring.symlink_to(ring)
    with pytest.raises(StateError, match=f"^Folder {ring} can't be listed: ") as seen:
        look(Folder(ring))
    assert os.strerror(errno.ELOOP) in seen.value.message
    assert "correct the path where it is declared" in seen.value.hint


def test_a_file_whose_bytes_can_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").mkdir()
    with pytest.raises(StateError, match=f"^File {tmp_path}/rows.parquet can't be read: ") as seen:
        Folder(tmp_path).read_bytes("rows.parquet")
    assert not seen.value.transient

"""What differs between two versions of a table, against all rows of both."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, TableFeatures

from hybrid_extensions.feeds.rows import CannotFollow, all_rows, changed_rows
from sources.errors import UnavailableError
from sources.storage.folder import Folder
from tests.hybrid_extensions.feeds.feed_case import KEY, SCHEMA, FeedCase, row
from tests.sources.storage.int96_files import EARLY, FAR, store_as_int96

Rows = dict[tuple[Any, ...], dict[str, Any]]


def rows_at(case: FeedCase, version: int) -> Rows:
    """All rows of a version by key, read in another way than the code does."""
    table = DeltaTable(str(case.target), version=version).to_pyarrow_table()
    return {(each["id"], each["part"]): each for each in table.select(SCHEMA.names).to_pylist()}


def differences(case: FeedCase, start: int, end: int) -> tuple[Rows, set[tuple[Any, ...]]]:
    """Rows that are written and keys that are deleted, as the code finds them."""
    table = DeltaTable(str(case.target), version=end)
    with changed_rows(Folder(case.target), start, table, KEY, SCHEMA) as found:
        rows = found.read("arrow").read_all().to_pylist()
    written, deleted = {}, set()
    for each in rows:
        key = (each["id"], each["part"])
        assert key not in written
        assert key not in deleted
        if each.pop("_is_deleted"):
            deleted.add(key)
        else:
            written[key] = each
    return written, deleted


@pytest.mark.parametrize("partition_by", [[], ["part"]])
@pytest.mark.parametrize("seed", range(3))
def test_between_any_two_versions_it_is_exactly_what_differs(
    tmp_path: Path, seed: int, partition_by: list[str]
) -> None:
    chance = random.Random(seed)
    case = FeedCase(tmp_path, partition_by=partition_by)
    case.write(row(n, part=chance.choice("ab")) for n in range(40))
    for _ in range(10):
        match chance.randrange(5):
            case 0:
                case.delete(f"id % 5 = {chance.randrange(5)}")
            case 1:
                case.table.optimize.compact()
            case 2 if (version := case.table.version()) > 1:
                case.table.restore(chance.randrange(1, version))
            case _:
                numbers = chance.sample(range(60), 8)
                case.write(row(n, chance.randrange(3), chance.choice("ab")) for n in numbers)
    last = case.table.version()
    for _ in range(12):
        start, end = sorted(chance.sample(range(1, last + 1), 2))
        before, after = rows_at(case, start), rows_at(case, end)
        written, deleted = differences(case, start, end)
        assert deleted == before.keys() - after.keys()
        changed = {key for key in after if repr(before.get(key)) != repr(after[key])}
        assert written.keys() == changed
        assert repr(sorted(written.items())) == repr(sorted((k, after[k]) for k in changed))


def test_a_table_whose_files_are_not_plain_is_loaded(tmp_path: Path) -> None:
    case = FeedCase(tmp_path)
    case.write([row(1)])
    case.table.alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    case.write([row(1, 1)])
    with (
        pytest.raises(CannotFollow, match="the table uses deletionVectors"),
        changed_rows(Folder(case.target), 1, case.table, KEY, SCHEMA),
    ):
        pass
    with all_rows(case.table, KEY, SCHEMA) as rows:
        assert len(rows) == 1


@pytest.mark.parametrize("lost", ["log", "file"])
def test_a_version_is_lost_only_if_the_store_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    case = FeedCase(tmp_path)
    case.write([row(1)])
    [first] = DeltaTable(str(case.target)).file_uris()
    case.write([row(1, 1)])
    table = case.table
    gone = case.target / "_delta_log" / f"{1:020d}.json" if lost == "log" else Path(first)
    gone.unlink()

    def follow() -> None:
        with changed_rows(Folder(case.target), 1, table, KEY, SCHEMA):
            pass

    with pytest.raises(CannotFollow, match=r"version 1 .*can't be read"):
        follow()

    def silent(folder: Folder, _: str) -> bool:
        message = f"The store of {folder.url} does not answer."
        raise UnavailableError(message, "Wait.")

    monkeypatch.setattr(Folder, "exists", silent)
    with pytest.raises(UnavailableError, match="does not answer"):
        follow()


def test_times_far_from_now_are_delivered_however_the_table_stores_them(tmp_path: Path) -> None:
    case = FeedCase(tmp_path)
    first, second = [{**row(number), "at": at} for number, at in enumerate((FAR, EARLY))]
    case.write([first])
    store_as_int96(case.target)
    case.write([second])
    table = DeltaTable(str(case.target))
    with all_rows(table, KEY, SCHEMA) as found:
        assert [each["at"] for each in found.read("arrow").read_all().to_pylist()] == [FAR, EARLY]
    written, _ = differences(case, 0, table.version())
    assert [each["at"] for _, each in sorted(written.items())] == [FAR, EARLY]

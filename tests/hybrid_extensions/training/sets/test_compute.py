"""Training sets that are computed range by range: compared with a search through all rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.training.sets import compute as computation
from sources.errors import InputError, StateError, UnavailableError
from sources.storage.folder import Folder
from tests.hybrid_extensions.training.sets.set_case import Case
from tests.properties import examples

SHOPS = st.sampled_from(["a", "b"])
HOURS = st.integers(0, 95)
MADE = st.fixed_dictionaries(
    {
        "own": st.lists(
            st.tuples(SHOPS, st.integers(0, 9), st.integers(0, 99), HOURS),
            max_size=8,
            unique_by=lambda row: row[:2],
        ),
        "prices": st.lists(st.tuples(SHOPS, st.integers(0, 99), HOURS), max_size=8),
        "rates": st.lists(
            st.tuples(SHOPS, st.integers(0, 99), HOURS, st.none() | HOURS), max_size=8
        ),
    }
)
GIVEN = st.lists(st.tuples(st.sampled_from(["a", "b", None]), HOURS), max_size=10)


@given(first=MADE, later=MADE, labels=GIVEN, more=GIVEN, many=st.booleans())
@examples(25)
def test_each_label_gets_what_a_search_finds_also_after_each_change(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[str, Any],
    later: dict[str, Any],
    labels: list[tuple[str | None, int]],
    more: list[tuple[str | None, int]],
    many: bool,
) -> None:
    case = Case(tmp_path_factory.mktemp("p"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computation, "BATCH_LABELS", 1_000 if many else 2)
        case.labels = [(n, shop, hour) for n, (shop, hour) in enumerate(labels)]
        case.write_labels()
        case.add(**first)
        case.compute()
        assert _rows(case) == case.expected()
        windows = {row[:2] for row in case.own}
        own = [row for row in later["own"] if row[:2] not in windows]
        case.add(own, later["prices"], later["rates"])
        case.labels += [(100 + n, shop, hour) for n, (shop, hour) in enumerate(more)]
        case.write_labels()
        case.compute()
        assert _rows(case) == case.expected()
        assert all(each.is_current for each in case.look().values())


def _rows(case: Case) -> list[dict[str, Any]]:
    return case.rows() if (case.folder / "sales").exists() else []


@pytest.fixture
def case(tmp_path: Path) -> Case:
    made = Case(tmp_path)
    made.labels = [(1, "a", 5), (2, "a", 30), (3, "b", 54)]
    made.write_labels()
    made.add(own=[("a", 0, 7, 2)], prices=[("a", 3, 1), ("b", 4, 50)], rates=[("a", 1, 0, 29)])
    return made


def test_only_what_is_missing_or_changed_is_computed(case: Case) -> None:
    assert case.compute().ranges == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert case.compute().ranges == []
    # Known on the second day: labels before it get what they had.
    case.add(prices=[("a", 9, 26)])
    done = case.compute()
    assert (done.ranges, done.tables) == (["2024-01-02", "2024-01-03"], ["prices"])
    assert case.rows() == case.expected()
    case.labels.append((4, "b", 31))
    case.write_labels()
    done = case.compute()
    assert (done.ranges, done.rows) == (["2024-01-02"], 2)
    assert done.tables == ["own", "prices", "rates"]
    assert case.rows() == case.expected()


def test_a_range_that_is_asked_for_is_computed_alone(case: Case) -> None:
    assert case.compute(["2024-01-02"]).ranges == ["2024-01-02"]
    assert [row["id"] for row in case.rows()] == [2]
    assert [each.key for each in case.look().values() if not each.is_current] == [
        "2024-01-01",
        "2024-01-03",
    ]


def test_labels_that_are_gone_take_their_rows_along(case: Case) -> None:
    case.compute()
    case.labels = case.labels[:1]
    case.write_labels()
    assert case.look()["2024-01-03"].reasons == ("its labels are gone",)
    assert case.compute().ranges == ["2024-01-02", "2024-01-03"]
    assert case.rows() == case.expected()
    assert list(case.look()) == ["2024-01-01"]


def test_a_column_and_a_table_that_are_new_are_computed_for_all_ranges_alone(case: Case) -> None:
    rates = case.tables.pop()
    case.compute()
    case.tables.append(rates)
    done = case.compute()
    assert (len(done.ranges), done.tables) == (3, ["rates"])
    assert case.rows() == case.expected()
    case.tables[1] = case.tables[1] | {"columns": ["price", "shop"]}
    done = case.compute()
    assert (len(done.ranges), done.tables) == (3, ["prices"])
    assert [row.pop("prices__shop") for row in case.rows()] == ["a", "a", "b"]


def test_a_column_that_is_no_longer_declared_is_dropped_in_one_commit_of_all_ranges(
    case: Case,
) -> None:
    case.compute()
    case.tables.pop()
    with pytest.raises(InputError, match="has to be written as a whole: its column `rates__rate`"):
        case.compute(["2024-01-01"])
    before = DeltaTable(case.folder / "sales").version()
    assert len(case.compute().ranges) == 3
    assert DeltaTable(case.folder / "sales").version() == before + 1
    left = [name for name in case.expected()[0] if not name.startswith("rates__")]
    assert case.rows() == [{name: row[name] for name in left} for row in case.expected()]


@pytest.mark.parametrize("by", ["hour", "month"])
def test_ranges_of_another_length_take_the_place_of_all_others_in_one_commit(
    case: Case, by: str
) -> None:
    labels = {"path": "labels.parquet", "key": ["id"], "time": "asked", "start": "2024-01-01"}
    case.compute()
    rows = [{**row, "label_range": None} for row in case.expected()]
    for now in (by, "day"):
        case.fields["labels"] = {**labels, "by": now}
        with pytest.raises(InputError, match=r"has to be written as a whole: its ranges.* by "):
            case.compute([])
        before = DeltaTable(case.folder / "sales").version()
        case.compute()
        assert DeltaTable(case.folder / "sales").version() == before + 1
        assert [{**row, "label_range": None} for row in case.rows()] == rows
        assert case.compute().ranges == []
        assert all(each.is_current for each in case.look().values())
    assert case.rows() == case.expected()


def test_a_table_that_was_deleted_is_made_again(case: Case) -> None:
    case.compute()
    shutil.rmtree(case.folder / "sales")
    assert len(case.compute().ranges) == 3
    assert case.rows() == case.expected()


@pytest.mark.parametrize("how", ["copied", "restored"])
def test_a_set_that_was_restored_is_computed_again(case: Case, how: str) -> None:
    case.compute()
    sales = DeltaTable(case.folder / "sales")
    backup = shutil.copytree(case.folder / "sales", case.folder / "backup")
    case.add(prices=[("a", 9, 26)])
    case.compute()
    assert case.rows() == case.expected()
    if how == "copied":
        shutil.rmtree(case.folder / "sales")
        shutil.copytree(backup, case.folder / "sales")
    else:
        DeltaTable(case.folder / "sales").restore(sales.version())
    assert case.rows() != case.expected()
    case.compute()
    assert case.rows() == case.expected()
    assert case.compute().ranges == []


@pytest.mark.parametrize("more", [0, 1])
def test_a_feature_table_that_was_restored_and_went_on_otherwise_is_read_again(
    case: Case, more: int
) -> None:
    """It has the version that was read once more, with other rows."""
    backup = shutil.copytree(case.folder / "prices", case.folder / "backup")
    prices = list(case.prices)
    case.add(prices=[("a", 9, 26)])
    case.compute()
    shutil.rmtree(case.folder / "prices")
    shutil.copytree(backup, case.folder / "prices")
    case.prices = prices
    case.add(prices=[("a", 5, 27)])
    if more:
        case.add(prices=[("b", 6, 90)])
    case.compute()
    assert case.rows() == case.expected()


def test_what_a_broken_off_computation_has_committed_is_not_computed_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computation, "BATCH_LABELS", 1)
    written: list[str] = []

    def fails_at_the_third(*given_: Any, **how: Any) -> None:
        if len(written) == 2:
            raise OSError("disk full")
        written.append(how["predicate"])
        write_deltalake(*given_, **how)

    monkeypatch.setattr(computation, "write_deltalake", fails_at_the_third)
    with pytest.raises(InputError, match="can't be written: disk full"):
        case.compute()
    assert case.rows() == case.expected()[:2]
    monkeypatch.setattr(computation, "write_deltalake", write_deltalake)
    assert case.compute().ranges == ["2024-01-03"]
    assert case.rows() == case.expected()


def test_a_range_that_another_computation_has_rewritten_meanwhile_is_refused(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.compute()
    case.add(prices=[("a", 9, 26)])

    def is_late(*given_: Any, **how: Any) -> None:
        monkeypatch.setattr(computation, "write_deltalake", write_deltalake)
        assert case.compute().ranges == ["2024-01-02", "2024-01-03"]
        write_deltalake(*given_, **how)

    monkeypatch.setattr(computation, "write_deltalake", is_late)
    with pytest.raises(StateError, match="has written training set `sales` meanwhile") as caught:
        case.compute()
    assert caught.value.transient
    assert "ranges 2024-01-02 to 2024-01-03" in caught.value.message
    assert case.rows() == case.expected()
    assert all(each.is_current for each in case.look().values())


def _killed_before_the_record(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute ranges, and end after the first commit, before the state says what it was made of."""

    def is_killed(*given_: Any, **how: Any) -> None:
        write_deltalake(*given_, **how)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(computation, "write_deltalake", is_killed)
        with pytest.raises(KeyboardInterrupt):
            case.compute()


def test_labels_that_are_gone_after_a_kill_between_commit_and_record_take_their_rows_along(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed_before_the_record(case, monkeypatch)
    assert case.rows() == case.expected()
    case.labels = case.labels[:1]
    case.write_labels()
    assert case.look()["2024-01-03"].reasons == ("its labels are gone",)
    case.compute()
    assert case.rows() == case.expected()


def test_labels_that_are_as_before_a_kill_between_commit_and_record_are_computed_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.compute()
    before = case.labels
    case.labels = [*before, (9, "a", 30)]
    case.write_labels()
    _killed_before_the_record(case, monkeypatch)
    case.labels = before
    case.write_labels()
    case.compute()
    assert case.rows() == case.expected()


def test_an_outage_of_the_store_is_not_taken_for_a_full_disk(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: Any, **__: Any) -> None:
        raise OSError("no space")

    def silent(*_: Any) -> None:
        raise UnavailableError("The store does not answer.", "")

    with monkeypatch.context() as patched:
        patched.setattr(computation, "write_deltalake", failed)
        with pytest.raises(InputError, match=r"can't be written: no space\. .* a full disk"):
            case.compute()
        patched.setattr(Folder, "exists", silent)
        with pytest.raises(UnavailableError):
            case.compute()
    case.compute()


def test_rows_that_are_deleted_are_a_change_from_their_time_on(case: Case) -> None:
    case.add(own=[("a", 1, 8, 28)])
    case.compute()
    DeltaTable(case.folder / "out").delete("n = 8")
    case.own.pop()
    assert case.compute().ranges == ["2024-01-02", "2024-01-03"]
    assert case.rows() == case.expected()

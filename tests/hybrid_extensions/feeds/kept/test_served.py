"""What was served, compared with what training takes: as a search through all deliveries does."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.feeds.dagster import feed_definitions
from hybrid_extensions.feeds.feed_health import feed_statuses
from hybrid_extensions.feeds.kept import comparison, keeper
from sources.errors import InputError, StateError
from tests.command_line import invoke
from tests.hybrid_extensions.feeds.feed_case import row
from tests.hybrid_extensions.feeds.kept.kept_case import Kept, at
from tests.hybrid_extensions.report.page_case import page_of

BEGIN_MS = 1_704_067_200_000  # 2024-01-01


class Clock:
    """The feed's clock, which goes on by a second at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = BEGIN_MS
        monkeypatch.setattr(keeper, "now_ms", self)
        # Without a look at the time it would go on.
        monkeypatch.setattr(comparison, "now_ms", lambda: self.ms)

    def __call__(self) -> int:
        self.ms += 1000
        return self.ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def case(tmp_path: Path, clock: Clock) -> Kept:
    return Kept(tmp_path)


class Searched(NamedTuple):
    """Numbers of a comparison, by a search."""

    changes: int
    changes_equal: int
    random: int
    random_equal: int
    unknown: int


def search(
    case: Kept, trained: list[tuple[int, int | None, datetime]], until_ms: int, seed: int
) -> Searched:
    """What each look-up found, and what training takes: by a look at all rows for each."""
    kept = case.kept
    ids = sorted({each["id"] for each in kept if each["id"] is not None})
    loads = {each["feed_delivery"]: each for each in kept if each["feed_kind"] == "load"}

    def states(number: int) -> list[tuple[datetime, datetime, int | None, bool]]:
        """Begin and end of each delivery that concerns a key, its value, and whether it is new."""
        found = []
        for delivery in sorted({each["feed_delivery"] for each in kept}):
            mine = [e for e in kept if e["feed_delivery"] == delivery and e["id"] == number]
            if mine:
                times = (mine[0]["feed_begun_at"], mine[0]["feed_delivered_at"])
                found.append((*times, mine[0]["n"], bool(mine[0]["feed_is_new"])))
            elif delivery in loads and found and found[-1][2] is not None:
                times = tuple(loads[delivery][f"feed_{name}_at"] for name in ("begun", "delivered"))
                found.append((times[0], times[1], None, False))
        return found

    def served(number: int, moment: datetime) -> tuple[bool, int | None]:
        """Whether it is known what a look-up found, and what it found."""
        all_states = states(number)
        before = [each for each in all_states if each[0] <= moment]
        if not before:
            return all_states[0][3], None
        return moment >= before[-1][1], before[-1][2]

    def known(number: int, moment: datetime) -> int | None:
        before = [(since, n) for id_, n, since in trained if id_ == number and since <= moment]
        return max(before, key=lambda each: each[0])[1] if before else None

    changes = [(number, state[1]) for number in ids for state in states(number)]
    first_ms = round(min(moment for _, moment in changes).timestamp() * 1000)
    chance = random.Random(seed)
    drawn = [
        (ids[chance.randrange(len(ids))], at(chance.randint(first_ms, until_ms)))
        for _ in range(comparison.SAMPLE)
    ]
    numbers: list[int] = []
    unknown = 0
    for asked in (changes, drawn):
        answers = [(number, moment, *served(number, moment)) for number, moment in asked]
        unknown += sum(not is_known for _, _, is_known, _ in answers)
        judged = [(number, moment, n) for number, moment, is_known, n in answers if is_known]
        numbers += [len(judged), sum(known(number, moment) == n for number, moment, n in judged)]
    changes_judged, changes_equal, random_judged, random_equal = numbers
    return Searched(changes_judged, changes_equal, random_judged, random_equal, unknown)


@pytest.mark.parametrize("seed", range(2))
def test_each_look_up_is_judged_as_a_search_does(
    case: Kept, clock: Clock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(comparison, "SAMPLE", 300)
    chance = random.Random(seed)
    trained: list[tuple[int, int | None, datetime]] = []
    case.write([row(0, 0)])
    for version in range(1, 9):
        case.deliver()
        match chance.randrange(5):
            case 0:
                case.delete(f"id = {chance.randrange(4)}")
            case 1:
                case.own(f"g{version}")
            case _:
                for number in chance.sample(range(4), 2):
                    case.write([row(number, version)])
                    # At times it is known before it is served, or never.
                    known_ms = clock.ms + chance.choice([-1500, 500, 1500, 10**9])
                    trained.append((number, version, at(known_ms)))
        clock.ms += chance.randrange(5000)
    case.deliver()
    case.train(trained)
    found = case.served(seed=seed)
    expected = search(case, trained, clock.ms, seed)
    agreement = found.agreement
    assert expected == (
        *(agreement.changes, agreement.changes_equal),
        *(agreement.random, agreement.random_equal),
        found.unknown,
    )
    assert 0 < found.different < found.compared
    assert agreement.columns == {"n": pytest.approx(found.share)}


def test_all_is_equal_if_training_knows_each_value_from_when_it_was_served(case: Kept) -> None:
    case.write(row(n) for n in range(3))
    case.deliver()
    case.write([row(1, 1), row(4, 1)])
    case.deliver()
    served = [(each["id"], each["n"], each["feed_delivered_at"]) for each in case.kept]
    case.train(served)
    found = case.served()
    assert (found.share, found.agreement.changes, found.agreement.examples) == (1.0, 5, [])
    assert found.agreement.random + found.unknown == comparison.SAMPLE
    (status,) = feed_statuses(case.loaded)
    assert f"Of {found.compared:,} look-ups each found what training takes." in status.text


def test_what_differs_is_shown_by_key_and_time(case: Kept) -> None:
    case.write([row(0), row(1)])
    case.deliver()
    (first, second) = case.kept
    case.train([(0, 0, first["feed_delivered_at"]), (1, 7, second["feed_delivered_at"])])
    found = case.served()
    assert (found.agreement.changes, found.agreement.changes_equal) == (2, 1)
    shown = found.agreement.examples[0]
    moment = second["feed_delivered_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert (shown.key, shown.at, shown.served, shown.trained) == (
        *("1:a", moment),
        *({"n": "0"}, {"n": "7"}),
    )


def test_a_value_that_was_served_late_differs_until_then(case: Kept, clock: Clock) -> None:
    case.write([row(0)])
    case.deliver()
    begun_ms = clock.ms
    case.write([row(1, 1)])
    clock.ms += 60_000
    case.deliver()
    clock.ms += 60_000
    known = at(begun_ms)
    case.train([(0, 0, at(0)), (1, 1, known)])
    agreement = case.served().agreement
    assert (agreement.changes, agreement.changes_equal) == (2, 2)
    # A quarter: one of two keys, half of the time.
    assert 0.7 < agreement.random_equal / agreement.random < 0.8
    assert agreement.examples[0].served == {"n": None}


def test_a_table_of_all_values_is_compared_with_itself(tmp_path: Path, clock: Clock) -> None:
    case = Kept(tmp_path, lambda declared: declared["sink"].update(mode="append"))
    case.declare({**case.plain, "keep": {"path": "kept"}})
    case.write(row(n) for n in range(3))
    case.deliver()
    clock.ms += 60_000
    case.write([row(4, 1)])
    case.deliver()
    found = case.served()
    assert (found.agreement.changes, found.agreement.changes_equal) == (4, 4)
    # The row of 4 was known before it was served.
    assert 0 < found.agreement.random_equal < found.agreement.random
    assert {each.key for each in found.agreement.examples} == {"4:a"}


def test_a_key_that_a_load_lacks_is_served_no_more(case: Kept) -> None:
    case.write([row(0), row(1)])
    case.deliver()
    case.delete("id = 1")
    case.own("second")
    assert case.deliver().kind == "load"
    case.train([(0, 0, at(0)), (1, 0, at(0))])
    agreement = case.served().agreement
    # Two of the first load, the key that stayed, and the one that is gone.
    assert (agreement.changes, agreement.changes_equal) == (4, 3)
    assert (agreement.examples[0].key, agreement.examples[0].served) == ("1:a", {"n": None})


def test_rows_are_as_late_as_their_oldest_commit(case: Kept, clock: Clock) -> None:
    case.write([row(0)])
    case.deliver()
    case.write([row(0, 1)])
    first_ms = case.table.history(1)[0]["timestamp"]
    case.write([row(1, 1)])
    clock.ms = first_ms + 7_000
    case.deliver()
    delivered_ms = case.kept[-1]["feed_delivered_at"].timestamp() * 1000
    case.train([(0, 0, at(0))])
    late = case.served().late
    assert late.rows == 2
    assert late.worst_s == pytest.approx((delivered_ms - first_ms) / 1000)
    assert late.median_s == late.p99_s == late.worst_s


def test_only_the_last_days_are_compared_if_asked(case: Kept, clock: Clock) -> None:
    case.write([row(0)])
    case.deliver()
    clock.ms += timedelta(days=3) // timedelta(milliseconds=1)
    case.write([row(0, 1)])
    case.deliver()
    case.train([(0, 1, case.kept[-1]["feed_delivered_at"])])
    found = case.served(days=2)
    assert (found.agreement.changes, found.agreement.changes_equal) == (1, 1)
    assert found.agreement.random > comparison.SAMPLE / 2
    assert found.agreement.random_equal == 0


def test_what_was_delivered_without_being_kept_is_not_judged(case: Kept, clock: Clock) -> None:
    case.write([row(0)])
    case.deliver()
    kept_ms = clock.ms
    case.declare(case.plain)
    clock.ms += 60_000
    case.write([row(0, 1)])
    case.deliver()
    case.declare({**case.plain, "keep": case.keep})
    case.train([(0, 0, at(0))])
    assert case.served().until_ms == kept_ms
    case.deliver()
    found = case.served()
    assert found.unknown > 0.9 * comparison.SAMPLE
    assert (found.agreement.changes, found.agreement.changes_equal) == (2, 1)


class TestRefused:
    def test_a_feed_that_keeps_nothing(self, case: Kept) -> None:
        case.declare(case.plain)
        with pytest.raises(InputError, match="does not keep what it delivers"):
            case.served()

    def test_before_the_first_delivery(self, case: Kept) -> None:
        case.train([])
        with pytest.raises(StateError, match="No delivery of feed `own` is kept"):
            case.served()

    def test_a_table_of_last_values(self, case: Kept) -> None:
        case.declare({**case.plain, "keep": {"path": "kept"}})
        case.write([row(0)])
        case.deliver()
        with pytest.raises(InputError, match="can't be compared with its own table") as caught:
            case.served()
        assert "trained_on" in str(caught.value.hint)

    @pytest.mark.parametrize(
        ("columns", "told"),
        [
            ("id, 'a' AS b, n, known_at", "has no column `part`, by which values are looked up"),
            ("id, part, CAST(n AS VARCHAR) AS n, known_at", "is served as INTEGER, and is VARCHAR"),
            ("id, part, known_at", "has none of the served columns n"),
        ],
    )
    def test_a_table_that_can_t_be_compared(self, case: Kept, columns: str, told: str) -> None:
        case.write([row(0)])
        case.deliver()
        case.train([(0, 0, at(0))])
        path = case.folder / "history"
        rows = DeltaTable(path).to_pyarrow_table()
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("rows", rows)
            changed = connection.sql(f"SELECT {columns} FROM rows").to_arrow_table()
        write_deltalake(path, changed, mode="overwrite", schema_mode="overwrite")
        with pytest.raises(InputError, match=told):
            case.served()


class TestCommand:
    def run(self, *words: object) -> tuple[int, str]:
        answer = invoke([str(word) for word in words])
        return answer.exit_code, " ".join(answer.output.split())

    @pytest.fixture
    def differing(self, case: Kept) -> Kept:
        case.write([row(0), row(1)])
        case.deliver()
        case.train([(0, 0, at(0)), (1, 7, at(0))])
        return case

    def test_a_difference_is_shown_and_not_red(self, differing: Kept) -> None:
        status, text = self.run("feed", differing.path, "--served")
        assert status == 0
        assert "1 of 2 at a change of their key" in text
        assert "n was served as 0, and is trained as 7." in text
        status, text = self.run("status", differing.path, "--json")
        (feed,) = json.loads(text)["feeds"]
        assert status == 0
        assert "did not find what training takes." in feed["text"]

    def test_above_the_declared_share_it_is_red(self, differing: Kept) -> None:
        differing.declare({**differing.plain, "keep": {**differing.keep, "max_different": 0.1}})
        status, text = self.run("feed", differing.path, "--served", "--days", 1, "--json")
        document: dict[str, Any] = json.loads(text)["feeds"]["own"]
        assert status == 1
        assert (document["within"], document["agreement"]["changes"]) == (False, 2)
        status, text = self.run("status", differing.path, "--json")
        assert status == 1
        assert "more than `max_different` allows" in json.loads(text)["feeds"][0]["text"]

    def test_the_report_shows_it_too(self, differing: Kept) -> None:
        differing.served()
        shown = page_of(differing.path).sections["status"]
        assert "did not find what training takes." in shown

    @pytest.mark.parametrize(("limit", "passed"), [(None, True), (0.1, False)])
    def test_the_check_in_dagster_is_red_above_the_declared_share(
        self, differing: Kept, limit: float | None, passed: bool
    ) -> None:
        differing.declare({**differing.plain, "keep": {**differing.keep, "max_different": limit}})
        (defined,) = feed_definitions(differing.loaded).asset_checks or []
        assert isinstance(defined, dg.AssetChecksDefinition)
        assert [each.name for each in defined.check_specs] == ["served_as_trained"]
        found = defined()
        assert isinstance(found, dg.AssetCheckResult)
        assert found.passed is passed
        assert found.metadata["look-ups compared"] != dg.MetadataValue.int(0)

    def test_the_same_seed_makes_the_same_look_ups(self, differing: Kept) -> None:
        first, same, other = (differing.served(seed=seed) for seed in (1, 1, 2))
        assert replace(first, unknown=0) == replace(same, unknown=0)
        assert first != other

"""A table of a real PostgreSQL is repaired while its live run goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable

from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc.compared.kept_compare import (
    ComparedRange,
    KeptCompare,
    keep_compare,
    read_compare,
)
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.repair import compared_rows
from hybrid_extensions.repair.result import RepairResult
from hybrid_extensions.repair.run import look, repair
from orchestration.operations import live_run, stopping
from orchestration.supervision.controls import drain
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.planning.context import PipelineContext
from sources.state.action_log import read_actions
from spark_jobs.run_state.repairs import read_repairs
from spark_jobs.run_state.truncate_position import Truncated
from spark_jobs.table.delta_table import version_of
from tests.command_line import invoke
from tests.e2e.case import kill_driver, live_of, wrong
from tests.e2e.changes.cdc_case import CdcCase, is_equal, take_snapshot
from tests.hybrid_extensions.repair.damage import CHANGES, damage
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.analysis]
LIMIT = timedelta(minutes=8)


@contextmanager
def live(loaded: LoadedPipeline) -> Iterator[None]:
    """The table of a pipeline follows the database, in a process of its own."""
    try:
        begun = invoke(["run", str(loaded.path)])
        assert live_run.is_live(loaded), begun.output
        yield
    finally:
        stopping.stop(loaded)


def wait_until_equal(loaded: LoadedPipeline) -> None:
    equal = is_equal(loaded)
    wait_for(lambda: equal(None), "the target to equal the table", 240)


def as_files_with_tables_declare(document: dict[str, Any]) -> None:
    """Long values that a change leaves as they were, and TRUNCATEs."""
    changes = document["sources"][1]
    changes["on_truncate"] = "follow"
    changes["include"] = {**changes["include"], "_unchanged": "unchanged"}
    document["sink"]["unchanged"] = "_unchanged"


def test_damage_is_made_good_beside_the_live_run_and_later_changes_win(
    case: CdcCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several ranges, by the statistics of the database.
    monkeypatch.setattr(compared_rows, "RANGE_ROWS", 300)
    case.execute(
        "ANALYZE orders",
        "ALTER TABLE orders ALTER customer SET STORAGE EXTERNAL",
        "UPDATE orders SET customer = repeat('x', 9999) WHERE id IN (3, 12, 40)",
    )
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline(edit=as_files_with_tables_declare)
    take_snapshot(loaded)
    with live(loaded):
        case.execute(*CHANGES)
        wait_until_equal(loaded)
        damage(loaded)
        generation = loaded.require_generation()
        # An older change of these would bring them back.
        DeltaTable(generation.folder("deletes").url).delete("id < 35")
        require_damage_to_be_shown(loaded)
        require_what_breaks_off_to_change_nothing(loaded)
        result: list[RepairResult] = []
        said: list[str] = []
        working = threading.Thread(
            target=lambda: result.append(repair(loaded, LIMIT, say=said.append, by="Ann"))
        )
        with psycopg.connect(case.dsn) as in_flight:
            in_flight.execute("UPDATE orders SET customer = 'in flight' WHERE id IN (13, 200)")
            # Its long value is in no log, and the target lacks the row.
            in_flight.execute("UPDATE orders SET amount = 77 WHERE id = 3")
            in_flight.execute("DELETE FROM orders WHERE id = 14")
            working.start()
            wait_for(lambda: "Waiting for transactions in flight." in said, "the repair to begin")
            # The driver dies and is started again meanwhile, and there are later changes.
            kill_driver(loaded)
            case.execute(
                "UPDATE orders SET customer = 'later' WHERE id IN (4, 15, 300)",
                "DELETE FROM orders WHERE id IN (5, 16)",
                "INSERT INTO orders (id, amount) VALUES (990002, 1), (6000, 1)",
            )
            live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
            assert not result
            in_flight.commit()
        working.join(LIMIT.total_seconds())
        [made] = result
        assert made.found.missing >= 5
        assert made.version is not None
        # What came in between is compared by the next one.
        assert (made.found.newer >= 1, made.found.partial) == (True, 1)
        differs = ComparedRange(first=None, until=None, at_ms=1, rows=9, differing=1, examples=[])
        keep_compare(generation, KeptCompare(begun_ms=1, finished_ms=1, ranges=[differs]))
        again = repair(loaded, LIMIT)
        assert again.found[:3] == (0, 1, 0)
        compared = read_compare(generation)
        assert compared is not None
        assert not compared.is_wrong
        wait_until_equal(loaded)
        # As before the damage: all of these are later than the repair.
        case.execute(
            "UPDATE orders SET customer = 'last' WHERE id BETWEEN 1 AND 25",
            "DELETE FROM orders WHERE id IN (7, 17)",
            "INSERT INTO orders (id, amount) VALUES (990001, 1)",
        )
        wait_until_equal(loaded)
        drain(loaded, LIMIT)
        report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
    kept = [each.table_version for each in read_repairs(generation).repairs]
    assert kept == [made.version, again.version]
    logged = [each for each in read_actions(loaded.state) if each.action == "repair"]
    assert [(each.by, each.outcome) for each in logged] == [("Ann", "done"), ("", "done")]


def require_damage_to_be_shown(loaded: LoadedPipeline) -> None:
    """By the command, which writes nothing."""
    answer = invoke(["repair", str(loaded.path), "--json"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert (found["is_applied"], found["version"]) == (False, None)
    counts = {"missing": 9, "different": 13, "extra": 3, "newer": 0, "impossible": 0}
    assert found["found"].items() >= counts.items()
    assert found["found"]["columns"] == {"customer": 10, "amount": 10}
    assert not compare_with_source(loaded).ok
    # Only the ranges that have one of the keys are read.
    one = look(loaded, LIMIT, keys="5, 990001, 700")
    assert (one.found.missing, one.found.different, one.found.extra) == (1, 0, 1)


def require_what_breaks_off_to_change_nothing(loaded: LoadedPipeline) -> None:
    """By a signal, or by a TRUNCATE that came in between."""
    generation = loaded.require_generation()
    found = version_of(loaded.target)

    def interrupt(text: str) -> None:
        if text.startswith("Reading the target"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repair(loaded, LIMIT, say=interrupt)
    generation.replace(Truncated.NAME, Truncated(position="f" * 32))
    with pytest.raises(StateError, match=r"`public.orders` was truncated while it was compared"):
        repair(loaded, LIMIT)
    generation.delete(Truncated.NAME)
    assert (version_of(loaded.target), read_repairs(generation).repairs) == (found, [])

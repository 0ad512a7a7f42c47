"""`make demo-model` on two weeks: what is served is what was trained on, or the demo fails."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

pytest.importorskip("hybrid_extensions.feeds", reason="it serves the table by a feed")

from examples import delay_model, demo_model
from examples.demo import Stages
from examples.departures import Period
from hybrid_extensions.servers.databases.postgres import LocalPostgres

SMALL = Period(
    begin=datetime(2013, 9, 23, tzinfo=UTC),
    history_end=datetime(2013, 10, 1, tzinfo=UTC),
    end=datetime(2013, 10, 5, tzinfo=UTC),
)


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_served_features_are_those_that_were_trained_on(
    tmp_path: Path,
    servers: str,
    postgres: LocalPostgres,
    serving_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in {
        "KAFKA_BOOTSTRAP_SERVERS": servers,
        "SERVING_DSN": serving_dsn,
        "SERVING_PASSWORD": postgres.password,
        "DEPARTURES_TOPIC": f"departures-{uuid.uuid4().hex[:8]}",
        # Set by the demo, and restored after the test.
        "DEPARTURES_DATA": "",
        "DEPARTURES_OUT": "",
        "DEPARTURES_STATE": "",
    }.items():
        monkeypatch.setenv(variable, value)
    stages = Stages()
    with ExitStack() as cleanup:
        loaded, made = demo_model.serve(SMALL, tmp_path, stages, cleanup)

    # Nothing is looked up in vain, and all but the flights of the first hours have features.
    assert made.known > len(made.rows) * 0.99
    assert not made.notes
    errors = delay_model.evaluate(made.rows, SMALL.history_end)
    assert all(0 < each.mean_absolute < each.root_mean_square < 60 for each in errors)
    proof = demo_model.prove(loaded, made.rows, stages)
    assert demo_model.conclusion(proof) == 0
    latest, every = proof.agreements
    assert (latest.share, every.share, every.rows) == (1.0, 1.0, len(made.rows))
    # The flights of the day after the feed's end.
    assert latest.rows > 500

    with psycopg.connect(serving_dsn, password=postgres.password) as changed:
        changed.execute(
            "UPDATE departure_delays SET mean_delay = mean_delay + 1 WHERE origin = 'JFK' "
            "AND hour = (SELECT max(hour) FROM departure_delays WHERE origin = 'JFK')"
        )
    proof = demo_model.prove(loaded, made.rows, stages)
    assert demo_model.conclusion(proof) == 1
    assert proof.report.ok
    assert not proof.sink.agrees
    latest, every = proof.agreements
    assert 0 < latest.share < 1
    assert latest.share < every.share < 1

"""Tests of the transforms in flights.py, as a team writes them: `pytest examples/test_flights.py`.

The fixture `hybrid_spark` comes with the project.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from examples.flights import delays, events
from hybrid_testing.seam import across_seam
from hybrid_testing.strategies import rows_of

FLIGHTS = {
    "carrier": "string",
    "flight": "int",
    "origin": "string",
    "scheduled_departure": "timestamp",
    "dest": "string",
    "dep_delay": "double",
    "arr_delay": "double",
    "cancelled": "boolean",
}
KEY = ["carrier", "flight", "origin", "scheduled_departure"]
WINDOW = ["window_start", "origin", "carrier"]
MORNING = datetime(2013, 9, 30, 6, tzinfo=UTC)


def flight(number: int, hours: float, delay: float | None) -> dict[str, Any]:
    """A flight so many hours after the morning; one without a delay was cancelled."""
    return {
        "carrier": "UA",
        "flight": number,
        "origin": "JFK",
        "scheduled_departure": MORNING + timedelta(hours=hours),
        "dest": "LAX",
        "dep_delay": delay,
        "arr_delay": delay,
        "cancelled": delay is None,
    }


def test_a_window_that_begins_in_a_file_is_completed_from_the_topic(
    hybrid_spark: SparkSession,
) -> None:
    """Windows of 24 hours are updated by key, whichever flights come from the topic."""
    archived = [flight(1, 0, 10.0), flight(2, 5, None)]
    # The third one is late: it left before the second one, and was reported after it.
    live = [flight(3, 4, 70.0), flight(4, 30, 0.0)]
    tolerance = {"mean_dep_delay": 1e-9, "share_cancelled": 1e-9}
    across_seam(
        delays,
        history=archived,
        live=live,
        mode="merge",
        key=WINDOW,
        schema=FLIGHTS,
        tolerance=tolerance,
        spark=hybrid_spark,
    )


@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    flights=rows_of(
        FLIGHTS,
        late=timedelta(days=1),
        step=timedelta(hours=12),
        begin=MORNING,
        columns={"carrier": st.sampled_from(["AA", "UA"]), "origin": st.just("JFK")},
        key=KEY[:2],
        max_size=5,
    )
)
def test_the_class_of_a_delay_does_not_depend_on_when_history_ends(
    hybrid_spark: SparkSession, flights: list[dict[str, Any]]
) -> None:
    """Any flights, some of them a day late and with nulls where the columns allow them."""
    across_seam(
        events,
        history=flights,
        cut=len(flights) // 2,
        restarts=False,
        key=KEY,
        schema=FLIGHTS,
        spark=hybrid_spark,
    )

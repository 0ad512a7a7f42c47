"""The machine: launches, refusals, promotions, kills and damage, in any order.

``HYBRID_SEQUENCES`` says how many sequences, ``HYBRID_SEED`` which ones (``make chaos``: 2,000).
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from tests.machine.people import People
from tests.machine.people_with_spark import PeopleWithSpark

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(36000)]
SEQUENCES = int(os.environ.get("HYBRID_SEQUENCES", "12"))
SPARK_SEQUENCES = int(os.environ.get("HYBRID_SPARK_SEQUENCES", "1"))
SEED = int(os.environ.get("HYBRID_SEED", "7"))
STEPS = 12


def play(people: type[People], servers: str, sequences: int) -> None:
    """Run the machine, and report what it did."""
    people.servers = servers
    people.counts = Counter()
    profile = settings(
        max_examples=sequences,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        print_blob=True,
    )
    try:
        run_state_machine_as_test(seed(SEED)(people), settings=profile, _min_steps=10)
    finally:
        counts = dict(sorted(people.counts.items()))
        lines = [f"seed {SEED}", *(f"{count:>8,} {name}" for name, count in counts.items())]
        sys.stderr.write("\n".join(["", *lines, ""]))


def test_whatever_people_do_what_is_green_is_right(servers: str) -> None:
    play(People, servers, SEQUENCES)


@pytest.mark.spark
def test_whatever_people_do_with_spark_what_is_green_is_right(
    servers: str, spark: SparkSession
) -> None:
    if not SPARK_SEQUENCES:
        pytest.skip("HYBRID_SPARK_SEQUENCES is 0")
    PeopleWithSpark.spark = spark
    play(PeopleWithSpark, servers, SPARK_SEQUENCES)

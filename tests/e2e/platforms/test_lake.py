"""A pipeline of which nothing is on a shared path: state, checkpoint and target in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.case import Case, run_through, wrong
from tests.services.lake import Edit, lake

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(params=["s3", pytest.param("hdfs", marks=pytest.mark.long)])
def move(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Edit]:
    with lake(request.param, tmp_path) as made:
        yield made


def test_files_then_the_topic_with_state_checkpoint_and_target_in_a_bucket(
    tmp_path: Path, servers: str, move: Edit
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(600))
    case.produce(range(500, 900))
    loaded = case.pipeline(move)
    report = run_through(loaded)
    assert (report.expected, wrong(report)) == (900, {})
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "out").exists()

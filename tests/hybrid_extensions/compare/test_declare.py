"""Pipelines whose ranges can't be compared with a database say so before they are loaded."""

from __future__ import annotations

import pytest

from hybrid_extensions.compare.declare import CompareSection
from sources.config.pipeline import Pipeline
from tests.hybrid_extensions.cdc.test_shard_checks import declared
from tests.minimal import minimal_model

DAILY = CompareSection.model_validate({"compare": {"cron": "0 2 * * *"}})


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        (declared(), r"`compare` .*`hybrid compare P`, which compares each shard as a whole"),
        (
            minimal_model({"name": "h", "type": "files", "path": "x", "format": "parquet"}),
            r"`compare` compares .* none declares a `snapshot`\. Remove it, or declare",
        ),
    ],
)
def test_a_schedule_of_comparisons_needs_one_captured_table(pipeline: Pipeline, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        DAILY.check(pipeline)
    CompareSection().check(pipeline)

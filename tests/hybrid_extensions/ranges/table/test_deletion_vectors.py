"""A range of a table with deletion vectors, whose files alone do not tell its rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.ranges.backfill import look
from hybrid_extensions.ranges.followed.followed_scope import scope_of
from sources.errors import StateError
from sources.files.tables.replaced_range import ReplacedRange
from sources.planning.context import PipelineContext
from tests.e2e.case import moment
from tests.e2e.in_session import run_history
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_it_is_refused_before_anything_is_computed(tmp_path: Path, spark: SparkSession) -> None:
    case = TwoPipelines(tmp_path)
    case.write_thousand()
    first = case.first()
    run_history(spark, first)
    assert look(first, moment(300), moment(600)).splits == 1
    properties = "('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"ALTER TABLE delta.`{first.target}` SET TBLPROPERTIES {properties}")
    with pytest.raises(StateError, match="files alone do not tell its rows") as no:
        look(first, moment(300), moment(600))
    assert "(deletionVectors" in no.value.message
    assert "`hybrid rerun P`" in no.value.hint
    # One that would have to follow is asked, and refuses the range of the table before it.
    replaced = ReplacedRange(column="at", since=moment(300), until=moment(600))
    with pytest.raises(StateError, match="files alone do not tell its rows"):
        scope_of(PipelineContext.require(first), replaced)

"""Transforms over every cut: those that the seam does not change pass, the others are named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from hybrid_testing.differences import SeamAssertionError
from hybrid_testing.rows import in_order
from hybrid_testing.seam import across_seam
from hybrid_testing.under_test import Transform
from sources.errors import InputError

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = {"at": "timestamp", "id": "bigint", "v": "double"}
_seen = 0


def rows(*minutes: int) -> list[dict[str, Any]]:
    """Rows at these minutes; the id of a row is its minute modulo 100."""
    return [{"at": BEGIN + timedelta(minutes=n), "id": n % 100, "v": n / 2} for n in minutes]


def distinct(given: DataFrame) -> DataFrame:
    """Keeps state for ever, which is right, if not cheap."""
    return given.dropDuplicates(["id"])


def hourly(given: DataFrame, delay: str = "30 minutes") -> DataFrame:
    window = F.window("at", "1 hour")
    return (
        given.withWatermark("at", delay)
        .groupBy(window)
        .agg(F.count("*").alias("n"), F.avg("v").alias("mean"))
        .select(F.col("window.start").alias("start"), "n", "mean")
    )


def without_watermark(given: DataFrame) -> DataFrame:
    counted = given.groupBy(F.window("at", "1 hour")).count()
    return counted.select(F.col("window.start").alias("start"), "count")


def numbered(given: DataFrame) -> DataFrame:
    def number(value: int) -> int:
        global _seen  # noqa: PLW0603 - the mistake that is to be found
        _seen += 1
        return _seen

    return given.withColumn("number", F.udf(number, "long")("id"))


class Count(StatefulProcessor):
    """Counts the rows of a key over all micro-batches; Spark's workers import it from here."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "n bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        (before,) = self._seen.get() or (0,)
        number = before + len([*rows])
        self._seen.update((number,))
        yield Row(k=key[0], n=number)

    def close(self) -> None:
        pass


def counted_in_state(given: DataFrame) -> DataFrame:
    keyed = given.withColumn("k", F.col("id") % 2).groupBy("k")
    return keyed.transformWithState(Count(), "k bigint, n bigint", "Update", "None")


def stamped(given: DataFrame) -> DataFrame:
    return given.withColumn("computed_at", F.current_timestamp())


def sorted_by_id(given: DataFrame) -> DataFrame:
    return given.orderBy("id")


def counted_at_once(given: DataFrame) -> DataFrame:
    return given.withColumn("of", F.lit(given.count()))


def first_of_batch(given: DataFrame) -> DataFrame:
    def mark(batches: Any) -> Any:
        for batch in batches:
            first = [n == 0 for n in range(batch.num_rows)]
            yield pa.RecordBatch.from_arrays([*batch, pa.array(first)], [*SCHEMA, "first"])

    return given.mapInArrow(mark, "at timestamp, id bigint, v double, first boolean")


@pytest.mark.spark
class TestAcrossSeam:
    def test_what_spark_keeps_in_its_state_passes_every_cut(self, spark: SparkSession) -> None:
        history, live = rows(0, 1), rows(101)
        across_seam(distinct, history=history, live=live, key=["id"], spark=spark)

    def test_what_a_processor_of_ones_own_keeps_passes(self, spark: SparkSession) -> None:
        across_seam(
            counted_in_state,
            history=rows(0, 1),
            live=rows(3, 2),
            cut=2,
            restarts=False,
            mode="merge",
            key=["k"],
            spark=spark,
        )

    @pytest.mark.parametrize("mode", ["append", "merge"])
    def test_late_rows_within_the_delay_pass(
        self, spark: SparkSession, mode: Literal["append", "merge"]
    ) -> None:
        across_seam(
            hourly,
            history=rows(0, 70),
            live=rows(50, 190),
            cut="given",
            restarts=False,
            mode=mode,
            key=["start"],
            spark=spark,
        )

    @pytest.mark.parametrize(
        ("transform", "message"),
        [
            (without_watermark, "without watermark"),
            (sorted_by_id, "[Ss]orting is not supported"),
            (counted_at_once, "Queries with streaming sources must be executed"),
        ],
    )
    def test_what_no_stream_can_do_is_refused_before_any_row_is_read(
        self, spark: SparkSession, transform: Transform, message: str
    ) -> None:
        with pytest.raises(SeamAssertionError, match=message) as caught:
            across_seam(transform, history=rows(0, 1), spark=spark)
        assert f"`{transform.__name__}` fails as the transform of a pipeline" in str(caught.value)
        assert "test_seam.py:" in str(caught.value)
        assert (caught.value.cut, caught.value.counts) == (None, {})

    @pytest.mark.parametrize(
        ("transform", "reason", "count"),
        [(numbered, "what a UDF counts or remembers", 1), (stamped, "each time that it is run", 3)],
    )
    def test_what_a_process_or_the_clock_decides_fails_with_the_reason(
        self, spark: SparkSession, transform: Transform, reason: str, count: int
    ) -> None:
        with pytest.raises(SeamAssertionError, match=reason) as caught:
            across_seam(transform, history=rows(0, 1), live=rows(2), cut="given", spark=spark)
        assert caught.value.cut == 2
        assert caught.value.counts == {"missing": count, "unexpected": count}

    def test_what_depends_on_the_micro_batch_is_shown_with_its_first_rows_and_the_cut(
        self, spark: SparkSession
    ) -> None:
        with pytest.raises(SeamAssertionError) as caught:
            across_seam(
                first_of_batch, history=rows(0, 1), live=rows(2), cut=2, key=["id"], spark=spark
            )
        assert str(caught.value).splitlines()[:2] == [
            "`first_of_batch` does not give the table of all rows in one piece if history ends "
            "after 2 of 3 rows, before (at=2024-01-01 00:02:00+00:00, id=2, v=1.0):",
            "  1 row different: (id=2) has first=True instead of False",
        ]
        assert "which rows come together in a micro-batch" in str(caught.value)
        assert (caught.value.cut, caught.value.counts) == (2, {"different": 1})

    def test_late_rows_behind_the_watermark_are_counted_in_the_message(
        self, spark: SparkSession
    ) -> None:
        history, live = rows(0, 200), rows(10)
        with pytest.raises(SeamAssertionError, match="dropped 1 late row") as caught:
            across_seam(hourly, history=history, live=live, spark=spark)
        assert caught.value.cut == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": [], "schema": SCHEMA}, "Neither `history` nor `live` has a row"),
        ({"cut": 3}, "`cut` is 3, which does not leave rows on both sides"),
        ({"cut": "given"}, "`cut` is 3, which does not"),
        ({"mode": "merge"}, "`key` is needed with `mode='merge'`"),
        ({"history": [{"id": 1}]}, "the rows don't have exactly one timestamp column"),
        ({"event_time": "id"}, "`event_time` is `id`, which is no timestamp"),
        ({"schema": {"at": "timestamp", "id": "boolean"}}, "The rows can't be made a table"),
    ],
)
def test_what_can_not_be_tested_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        across_seam(distinct, **{"history": rows(0, 1, 2), **options})


def paid(orders: DataFrame, payments: DataFrame) -> DataFrame:
    of = payments.withWatermark("at", "1 hour").select(
        F.col("id").alias("paid"), F.col("at").alias("paid_at")
    )
    within = "id = paid AND paid_at BETWEEN at AND at + INTERVAL 1 HOUR"
    return orders.withWatermark("at", "1 hour").join(of, F.expr(within)).select("id", "paid_at")


@pytest.mark.spark
def test_a_join_of_two_inputs_does_not_depend_on_where_their_histories_end(
    hybrid_spark: SparkSession,
) -> None:
    orders, payments = rows(0, 10, 50), rows(20, 60, 110)
    for order, payment in zip(orders, payments, strict=True):
        payment["id"] = order["id"]
    inputs = {"orders": orders, "payments": payments}
    # After two orders and a payment.
    across_seam(paid, history=inputs, cut=3, restarts=False, key=["id"])


def test_rows_of_inputs_come_by_event_time_and_late_ones_after_those_before_them() -> None:
    def table(*minutes: int) -> pa.Table:
        return pa.Table.from_pylist(rows(*minutes))

    # The second row of `a` is late.
    order = in_order({"a": table(10, 5, 30), "b": table(7, 20), "c": table(1).slice(1)}, "at")
    assert order == ["b", "a", "a", "b", "a"]


@pytest.mark.spark
def test_an_input_without_rows_is_refused_by_its_name(hybrid_spark: SparkSession) -> None:
    of = {"orders": SCHEMA, "payments": SCHEMA}
    with pytest.raises(InputError, match="Input `payments` has no row"):
        across_seam(paid, history={"orders": rows(1), "payments": []}, schema=of)


@pytest.mark.parametrize(
    "live",
    [pytest.param(rows(5), id="a list"), pytest.param({"b": rows(5)}, id="of another input")],
)
def test_rows_of_live_that_no_input_has_are_refused(live: Any) -> None:
    with pytest.raises(InputError, match="which would not be read"):
        across_seam(distinct, history={"a": rows(1, 2)}, live=live, schema={"a": SCHEMA})

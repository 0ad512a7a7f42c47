"""Two transforms of flights; each is used for rows from files and from Kafka alike."""

from __future__ import annotations

import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import DataFrame

# Minutes behind schedule from which a departure counts as late, and as very late.
LATE = 15
VERY_LATE = 60


def events(flights: DataFrame) -> DataFrame:
    """Return one row for each flight, with the class of its delay and its day in UTC.

    Keeps no state. ``delay_class`` is ``cancelled``, ``on_time``, ``late`` or ``very_late``.
    """
    delay_class = (
        F.when(F.col("cancelled"), "cancelled")
        .when(F.col("dep_delay") < LATE, "on_time")
        .when(F.col("dep_delay") < VERY_LATE, "late")
        .otherwise("very_late")
    )
    return flights.select(
        "carrier",
        "flight",
        "origin",
        "scheduled_departure",
        "dest",
        "dep_delay",
        "arr_delay",
        "cancelled",
        delay_class.alias("delay_class"),
        # The project runs Spark's session in UTC.
        F.to_date("scheduled_departure").alias("departure_day"),
    )


def delays(flights: DataFrame) -> DataFrame:
    """Return delays and cancellations by airport and carrier, over 24 hours, every 6 hours.

    Windows start at 00:00, 06:00, 12:00 and 18:00 UTC. ``mean_dep_delay`` is in minutes, over the
    flights that left; null if none did. ``share_cancelled`` lies between 0 and 1.

    The watermark is set here, after the union of all sources: the state of a window is kept until
    the latest event time is 2 days past its end.
    """
    window = F.window("scheduled_departure", "24 hours", "6 hours")
    return (
        flights.withWatermark("scheduled_departure", "2 days")
        .groupBy(window, "origin", "carrier")
        .agg(
            F.count("*").alias("flights"),
            F.avg("dep_delay").alias("mean_dep_delay"),
            F.avg(F.col("cancelled").cast("double")).alias("share_cancelled"),
        )
        .select(
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "origin",
            "carrier",
            "flights",
            "mean_dep_delay",
            "share_cancelled",
        )
    )

"""A small model of departure delays, and its error on flights that it was not trained on."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa

SCHEDULE = ("scheduled_hour", "weekday", "origin_code", "carrier_code")
FEATURES = ("departures", "mean_delay", "max_delay", "late", "age_h")


class ModelError(NamedTuple):
    """Error of a way to tell delays in advance.

    Attributes:
        name: What it goes by.
        mean_absolute: Mean absolute error, in minutes.
        root_mean_square: Root of the mean square error, in minutes.
    """

    name: str
    mean_absolute: float
    root_mean_square: float


def evaluate(rows: pa.Table, split: datetime) -> list[ModelError]:
    """Train on the earlier rows of a training set; return the errors on the later ones.

    Args:
        rows: Flights with ``dep_delay`` and what was known at ``asked_at``.
        split: Flights before it are trained on.

    Returns:
        The errors of the median delay, of a model of the schedule alone, and of one with the
        features, too.
    """
    # It takes a second or two to import, and nothing else needs it.
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415

    frame = rows.to_pandas()
    scheduled = frame["scheduled_departure"].dt
    frame["scheduled_hour"], frame["weekday"] = scheduled.hour, scheduled.dayofweek
    frame["age_h"] = (frame["asked_at"] - frame["hour"]).dt.total_seconds() / 3600
    for name in ("origin", "carrier"):
        frame[f"{name}_code"] = frame[name].astype("category").cat.codes
    is_earlier = frame["scheduled_departure"] < split
    earlier, later = frame[is_earlier], frame[~is_earlier]
    actual = later["dep_delay"].to_numpy()
    told = {"median delay": np.full(len(later), earlier["dep_delay"].median())}
    for label, columns in (
        ("model of the schedule", [*SCHEDULE]),
        ("model with features", [*SCHEDULE, *FEATURES]),
    ):
        # The absolute error, as a few flights are late by many hours.
        model = HistGradientBoostingRegressor(loss="absolute_error", max_iter=50, random_state=0)
        model.fit(earlier[columns], earlier["dep_delay"])
        told[label] = model.predict(later[columns])
    return [
        ModelError(
            label,
            float(np.abs(values - actual).mean()),
            float(np.sqrt(((values - actual) ** 2).mean())),
        )
        for label, values in told.items()
    ]

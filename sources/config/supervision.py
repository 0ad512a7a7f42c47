"""Supervision, as declared: when a live run is unhealthy, waits before restarts, late rows."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    SecretStr,
    model_validator,
)

from sources.common.durations import Duration
from sources.common.fields import Declared

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def _share(value: Any) -> Any:
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        return float(match[1]) / 100
    return value


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]
"""A share, such as ``1 %``; as a number it is a fraction, such as 0.01."""


class Restarts(Declared):
    """Automatic restarts of a live run that ended by itself.

    Attributes:
        limit: Highest number of restarts within the window ``within``; after them the run stays
            down until it is started again, such as by `hybrid resume`. 0 means no restarts.
        within: Length of that window.
        loop: This many restarts within the window are reported as a crash loop.
        backoff: Time between the end of a run and the first restart.
        growth: Factor by which the wait grows with each further restart.
        longest: Longest wait before a restart.

    """

    limit: NonNegativeInt = 5
    within: Duration = timedelta(minutes=30)
    loop: PositiveInt = 3
    backoff: Duration = timedelta(seconds=10)
    growth: float = Field(default=2.0, ge=1, le=100)
    longest: Duration = timedelta(minutes=5)

    def wait(self, restarts: int) -> timedelta:
        """Return how long to wait between the end of a live run and its next restart.

        ``backoff`` before the first one, then ``growth`` times as long as before the one before;
        never longer than ``longest``.

        Args:
            restarts: Number of restarts so far within the window ``within``.
        """
        wait = min(self.backoff, self.longest)
        for _ in range(restarts):
            # Step by step, as a power of it could overflow.
            wait = min(wait * self.growth, self.longest)
        return wait

    @model_validator(mode="after")
    def _limit_can_be_reached(self) -> Restarts:
        waits = sum((self.wait(count) for count in range(self.limit)), timedelta(0))
        if self.limit and waits >= self.within:
            message = (
                f"`limit: {self.limit}` is never reached: the waits before so many restarts take "
                f"{waits.total_seconds():,.0f} s, and they count within "
                f"{self.within.total_seconds():,.0f} s. Lower `limit`, `backoff`, `growth` or "
                "`longest`, or raise `within`."
            )
            raise ValueError(message)
        return self


class LateRowLimits(Declared):
    """How many rows may be dropped behind the watermark: late rows, which the table then lacks.

    They are limits, and no part of what is computed, so they can be changed at any time. The number
    is Spark's `numRowsDroppedByWatermark`.

    Attributes:
        history: Most rows that may be dropped from bounded sources, over the whole generation. A
            bounded run that drops more ends with an error. `null`: any number.
        live: Highest share of dropped rows among the rows that the live run reads within `within`,
            such as `1 %`; above it the run is `dropping-rows`, which is red. `null`: any share.
        within: The period for which that share is computed.

    """

    history: NonNegativeInt | None = 0
    live: Share | None = 0.01
    within: Duration = timedelta(hours=1)


class Supervision(Declared):
    """What is expected of the runs: of the live one, and that none drops more rows than allowed.

    A bounded run is ended if its driver freezes, or if it drops rows behind the watermark.

    Attributes:
        restarts: Automatic restarts.
        start_within: A launch whose query has not started after this time is stuck.
        stuck_after: A run is stuck if input waits and nothing is committed for this time (plus the
            trigger or discovery interval of the source), or if its driver sends no heartbeat for
            this time.
        end_stuck_after: A run that is stuck for this time is ended and restarted. Keep it long: a
            micro-batch that is only slow would otherwise never finish. A bounded run whose driver
            sends no heartbeat for this time is ended, and its step fails.
        freshness: Longest time that input may wait while nothing is committed.
        caught_up_within: A run that works is `catching-up`, neither red nor healthy, if it needs
            longer than this for what waits, or if input has been waiting for longer (plus the
            trigger or discovery interval of the source).
        late_after: A run that is catching up is late, which is red, if input has been waiting for
            this time (plus that interval), and no less of it waits than this time ago.
        event_time_lag: How far the highest event time read may be behind the present while input
            waits; unlimited by default.
        lag: How much input may wait: records of a topic, or splits of a folder; unlimited by
            default.
        late_rows: How many rows may be dropped behind the watermark.
        webhook: URL that gets a JSON document by POST when the run becomes unhealthy, and when it
            recovers.

    """

    restarts: Restarts = Restarts()
    start_within: Duration = timedelta(minutes=5)
    stuck_after: Duration = timedelta(seconds=30)
    end_stuck_after: Duration = timedelta(minutes=15)
    freshness: Duration = timedelta(minutes=5)
    caught_up_within: Duration = timedelta(minutes=1)
    late_after: Duration = timedelta(minutes=10)
    event_time_lag: Duration | None = None
    lag: NonNegativeInt | None = None
    late_rows: LateRowLimits = LateRowLimits()
    webhook: SecretStr | None = None

    # Not a validator of the field: its errors carry the value.
    @model_validator(mode="after")
    def _webhook_is_a_url(self) -> Supervision:
        if (url := self.webhook_url) is None:
            return self
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_plain = url.isascii() and url.isprintable() and " " not in url
        except ValueError:
            is_url = is_plain = False
        if not (is_url and is_plain):
            message = (
                "`webhook` is not a URL that starts with http:// or https:// (the value is not "
                "shown, as it may contain a token). Correct the environment variable that it "
                "names, or leave that variable empty for no webhook."
            )
            raise ValueError(message)
        return self

    @property
    def webhook_url(self) -> str | None:
        """Declared URL of the webhook, in plain text; None if it is not declared or empty."""
        return (self.webhook.get_secret_value() if self.webhook else "") or None

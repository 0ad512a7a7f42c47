"""How the live run is supervised: when it is red, when it is started again, who is told."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from pydantic import Field, NonNegativeInt, PositiveInt, SecretStr, model_validator

from sources.common.fields import Declared, Duration


class Restarts(Declared):
    """How often, and how fast, a live run that ended by itself is started again.

    Attributes:
        limit: After this many restarts within the window it is left alone until people act; 0: it
            is never started again.
        within: The window.
        loop: This many restarts within the window are a crash loop; fewer are a hiccup.
        backoff: Time between an end and the first restart.
        growth: How much longer each further one waits.
        longest: The longest wait.

    """

    limit: NonNegativeInt = 5
    within: Duration = timedelta(minutes=30)
    loop: PositiveInt = 3
    backoff: Duration = timedelta(seconds=10)
    growth: float = Field(default=2.0, ge=1, le=100)
    longest: Duration = timedelta(minutes=5)

    def wait(self, restarts: int) -> timedelta:
        """Time between an end and the next restart, after that many within the window."""
        wait = min(self.backoff, self.longest)
        for _ in range(restarts):
            # Step by step: a power of it could be beyond any number.
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
                "`longest`, or raise `within`"
            )
            raise ValueError(message)
        return self


class Supervision(Declared):
    """What is expected of the live run, and of a bounded one, whose driver is not to freeze.

    Attributes:
        restarts: How it is started again.
        start_within: A launch that has not brought up its query by then is stuck.
        stuck_after: A run is stuck if input waits for so long and nothing is committed, on top of
            the source's own interval, or if its driver is silent for so long.
        end_stuck_after: How long it may be stuck before it is ended and started again. Generous:
            a micro-batch that is only slow would never be finished otherwise. A bounded run whose
            driver is silent for so long is ended, and its step fails.
        freshness: The longest time that input may wait while nothing is committed.
        event_time_lag: While input waits: how far the highest event time read may be behind now.
        lag: How much may wait: records of a topic, or splits of a folder.
        webhook: URL that is told of each change from good to bad and back.

    """

    restarts: Restarts = Restarts()
    start_within: Duration = timedelta(minutes=5)
    stuck_after: Duration = timedelta(seconds=30)
    end_stuck_after: Duration = timedelta(minutes=15)
    freshness: Duration = timedelta(minutes=5)
    event_time_lag: Duration | None = None
    lag: NonNegativeInt | None = None
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
            message = "`webhook` is no URL that starts with http:// or https://"
            raise ValueError(message)
        return self

    @property
    def webhook_url(self) -> str | None:
        """The webhook in the clear; None if there is none, or an empty one."""
        return (self.webhook.get_secret_value() if self.webhook else "") or None

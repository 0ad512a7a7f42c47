"""How far the clock of a driver is from the clock that judges it, by its heartbeats alone.

A heartbeat can't come from the future; and one that was not there at an earlier look, but is dated
before it, was written by a clock that is behind. Without such evidence clocks are believed.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_jobs.run_state.heartbeat import Heartbeat

_AGREE_MS = 5_000


class DriverClock(NamedTuple):
    """Clock of a driver, as far as it is known.

    Attributes:
        ahead_ms: How far it is ahead of the clock of the look; negative if it is behind.
        doubted_ms: Time in a heartbeat that was too old to be true; None if none is doubted. If
            another one follows it, the clock is behind; else the driver is silent.
        doubted_at_ms: When a look doubted it first; None if none is doubted.
    """

    ahead_ms: int = 0
    doubted_ms: int | None = None
    doubted_at_ms: int | None = None

    def at(self, beat: Heartbeat, now_ms: int, silent_after_ms: int) -> DriverClock:
        """Return the driver's clock as it is known after one more heartbeat. A pure function.

        Args:
            beat: The last heartbeat, with times by the driver's clock.
            now_ms: Time of the look.
            silent_after_ms: Age from which on a heartbeat means that the driver is silent.
        """
        time_ms = beat.at_ms - self.ahead_ms
        just_written = DriverClock(beat.at_ms - now_ms)
        if time_ms > now_ms + _AGREE_MS:
            return just_written
        is_old = now_ms - time_ms >= silent_after_ms
        if self.doubted_at_ms is None:
            return DriverClock(self.ahead_ms, beat.at_ms, now_ms) if is_old else self
        if beat.at_ms == self.doubted_ms:
            return self
        # It was written after that look, which else had seen it.
        is_behind = is_old or time_ms < self.doubted_at_ms
        return just_written if is_behind else DriverClock(self.ahead_ms)

    def translated(self, beat: Heartbeat) -> Heartbeat:
        """Return a heartbeat with its times by the clock of the look.

        These are the times of the heartbeat itself, of its last commit, progress and work, and of
        the next listing of its folder.
        """
        own = ("at_ms", "committed_at_ms", "advanced_at_ms", "worked_at_ms", "listing_due_ms")
        times = {name: getattr(beat, name) for name in own}
        return beat.model_copy(
            update={name: time - self.ahead_ms for name, time in times.items() if time is not None}
        )

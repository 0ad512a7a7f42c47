"""Wait for changes that are in a database's log, and not in a topic yet."""

from __future__ import annotations

from spark_jobs.run_state.heartbeat import Heartbeat


class CaptureWait:
    """Wait for the changes that are in a captured database's log to be in their topics.

    This one waits for nothing.

    Attributes:
        text: What waits besides the input in the topic, as the end of a sentence, by the last look;
            empty if no log is watched.
    """

    text = ""

    def is_behind(self, waiting: int, beat: Heartbeat | None) -> bool:
        """Look once; return whether changes may be missing from the topic. Called again and again.

        Args:
            waiting: Records in the topic that are not committed.
            beat: The run's latest heartbeat; None if it has none.

        Raises:
            RunError: No connector reads the slot, or it is missing or lost.
            InputError: Something was done to the captured table that no change reports.
            UnavailableError: The database does not answer.
            StateError: The state is damaged.
        """
        del waiting, beat
        return False

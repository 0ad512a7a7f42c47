"""Progress messages of a promotion or rollback: each step, and the state after an interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.serving import Switch, pending_switch, read_serving
from spark_jobs.table.ownership.belonging import is_committed

Say = Callable[[str], None]
"""Called with a line of text for each step, for a terminal or a log."""


def say_nothing(_: str) -> None:
    """Ignore a message: the default where progress has no reader."""


class Steps:
    """Progress of a change in numbered steps: each is published when it begins, reported when done.

    Args:
        say: Called with each step that is done, such as ``1 of 5: the live run of g1 is stopped``.
        count: Number of steps.
        note: Called with each step that begins, in the same form.
    """

    def __init__(self, say: Say, count: int, note: Say) -> None:
        self.say = say
        self._count = count
        self._note = note
        self._number = 0

    def begin(self, text: str) -> None:
        """Begin the next step, and pass its number and text to ``note``."""
        self._number += 1
        self._note(f"{self._number} of {self._count}: {text}")

    def end(self, text: str) -> None:
        """Pass the number of the step begun last, and a text on its result, to ``say``."""
        self.say(f"{self._number} of {self._count}: {text}")


@contextmanager
def told_if_interrupted(loaded: LoadedPipeline, say: Say) -> Iterator[None]:
    """Report how far a promotion or rollback is if the body of ``with`` is interrupted.

    An interrupt is what no ``except Exception`` catches: Ctrl-C, SIGTERM where it is turned into
    one, and the termination of a run in Dagster. It is raised again; errors pass without a report.

    Args:
        loaded: The pipeline.
        say: Called with a sentence: whether readers see the change already, and how to continue.

    Raises:
        StateError: The state can't be read; the body is then not run.
        UnavailableError: The state's store does not answer; the body is then not run.
    """
    begun, serving = pending_switch(loaded), read_serving(loaded).generation
    try:
        yield
    except Exception:
        raise
    except BaseException:
        try:
            say(_where_it_stands(loaded, begun, serving))
        except HybridError as error:
            say(
                f"Interrupted; how far it came can't be read now: {error} `hybrid generation list "
                "P` shows which generation serves, `hybrid generation finish P` completes the "
                "change, and until its commit `hybrid generation abort P` gives it up."
            )
        raise


def _where_it_stands(loaded: LoadedPipeline, begun: Switch | None, before: str) -> str:
    """Return what an interrupted change has done, and how to go on.

    Args:
        loaded: The pipeline.
        begun: The switch that was under way when the change was called.
        before: The generation that served then.
    """
    switch, serving = pending_switch(loaded), read_serving(loaded).generation
    if switch is not None and switch.group is not None:
        return (
            f"Interrupted: the {switch.kind} of {switch.to} is part of one of several pipelines, "
            "of which all are changed or none. `hybrid generation finish P` ends it, as the "
            "supervision does by itself; until all tables are changed `hybrid generation abort P` "
            "goes back in all of them. Until then no run of these pipelines starts."
        )
    if switch is not None and is_committed(loaded, switch):
        return (
            f"Interrupted after the commit: the {switch.kind} is done, readers see {switch.to}. "
            "Only the clean-up and the start of its live run are left: `hybrid generation finish "
            "P` completes them, or the supervision does."
        )
    if switch is not None:
        return (
            f"Interrupted before the commit: nothing has changed, and readers see {switch.past}. "
            f"`hybrid generation finish P` goes on with the {switch.kind} of {switch.to}, as the "
            "supervision does by itself; `hybrid generation abort P` gives it up. Until then no "
            "run of the pipeline starts."
        )
    if begun is None and serving == before:
        return (
            f"Interrupted before the first step: nothing has changed, and readers see {serving}. "
            "Try again."
        )
    return (
        f"Interrupted after the last step of the change: readers see {serving}. If its live run is "
        "requested, the supervision starts it, or `hybrid resume P` does. Files that nobody needs "
        "are deleted after the next promotion."
    )

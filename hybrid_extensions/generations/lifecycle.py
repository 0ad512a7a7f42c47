"""Discard of the newest generation, and rerun: the whole table again, promoted if it passes.

What begins one, without computing it, is in :mod:`sources.generations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid_extensions.comparison.compared_tables import of_one_generation
from hybrid_extensions.comparison.keeping_audits import keep_audit
from hybrid_extensions.generations import discards
from hybrid_extensions.generations.comparison.compare_generations import (
    GenerationComparison,
    compare_generations,
)
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.switch.lock import hold_switch_lock
from hybrid_extensions.generations.switch.older_ranges import find_older_ranges
from hybrid_extensions.generations.switch.progress import Say
from orchestration.chain import BoundedStep, ChainRun, Observer, Step, run_chain
from orchestration.comparison.installed_audit import audit, installed_audit
from orchestration.comparison.kept_audit import KeptAudit
from orchestration.operations import stopping
from orchestration.progress.in_words import progress_parts, share_of
from orchestration.remedies import for_generation
from sources import generations
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError, leaving
from sources.kept_definitions import declaration_of
from sources.planning.approval import NotApprovedError, require_approver
from sources.planning.context import PipelineContext
from sources.serving import Serving, candidate_name, read_serving, require_in_service
from sources.state.action_log import recorded
from sources.state.generation import read_generation
from spark_jobs.run_state.heartbeat import Heartbeat


def discard(loaded: LoadedPipeline, by: str | None = None) -> str:
    """Stop the runs of the newest generation, and delete its state and its table.

    An interrupted promotion or rollback is finished first.

    Args:
        loaded: The pipeline.
        by: Who deletes it; None if unknown.

    Returns:
        The name of the deleted generation.

    Raises:
        StateError: The newest generation serves or has served, so it is kept; or another process
            is changing the table (transient).
        RunError: A run can't be ended from this machine, or its cluster did not end it.
        UnavailableError: The cluster does not answer.
        SeamError: A promotion was interrupted, and the hand-over of its live run no longer passes
            its checks.
        InputError: The kept declaration is not valid, or a cluster's command line tool is missing.
    """
    promotion.finish(loaded)
    unchanged = leaving("The table that readers see was not changed.")
    with unchanged, hold_switch_lock(loaded, "discard of the newest generation"):
        if (name := candidate_name(loaded)) is None:
            return discards.discard(loaded)
        # Begun meanwhile, a promotion may have its files in the target already.
        require_in_service(loaded, read_generation(loaded.state, name))
        before = {"newest": name}
        with recorded(loaded.state, "discard generation", by, name, before) as after:
            stopping.stop(declaration_of(loaded, name), by or "")
            after["deleted"] = discards.discard(loaded, name)
        return after["deleted"]


def rerun(  # noqa: PLR0913 - each is another thing
    loaded: LoadedPipeline,
    *,
    promote: bool,
    rows_at_least: float,
    say: Say,
    is_audited: bool | None = None,
    by: str | None = None,
    compared: Callable[[GenerationComparison], None] = lambda _: None,
) -> Serving:
    """Recompute the whole table as a new generation, and promote it if that is requested.

    Blocks until history is read and the new live run has caught up. An interrupted rerun resumes
    where it stopped: a generation that waits for its promotion is continued.

    Args:
        loaded: The pipeline.
        promote: Whether to promote it if it passes; otherwise it waits for a person.
        rows_at_least: Fewest rows, as a fraction of those of the serving generation, such as 0.95.
        say: Called with a line of text for each step.
        is_audited: Whether to audit it, which reads all of the input: before it is promoted, or for
            the person who decides, whom a failure is told as a line of text; None if the pipeline
            declares ``audit`` and an extension audits tables.
        by: Who requests the promotion; kept with the serving generation. None if unknown.
        compared: Called with the comparison of both tables, before a promotion.

    Returns:
        Which generation serves afterwards, and those that served before.

    Raises:
        StateError: The new generation has too few rows, or those of before a range was recomputed;
            its audit has failed; or its live run is not healthy. It is kept and waits; the serving
            one is not touched.
        NotApprovedError: Its plan waits for a person's approval; repeated after that, the rerun
            continues.
        InputError: It is to be promoted, and ``approvers`` does not name ``by``; nothing was begun.
        UnavailableError: A store, a broker or a cluster does not answer.
        HybridError: A step of the chain was refused or failed, or the tables can't be compared.
    """
    if promote:
        require_approver(loaded.pipeline, by, "promote a generation")
    promotion.finish(loaded, say=say)
    name = candidate_name(loaded) or generations.begin(loaded, by).name
    observer = _Lines(name, say)
    try:
        run_chain(ChainRun(loaded, observer, rest_requested=True, until_caught_up=True))
    except NotApprovedError as error:
        again = f"{error.hint} Then repeat `hybrid rerun P`: it goes on from there."
        raise NotApprovedError(error.message, again, **error.fields) from None
    except HybridError as error:
        error.message = for_generation(error.message, name)
        error.hint = for_generation(error.hint, name)
        raise
    found = compare_generations(loaded)
    before, now = found.rows[found.serving], found.rows[found.candidate]
    say(found.text)
    compared(found)
    if now < rows_at_least * before:
        message = (
            f"Generation {name} has {counted(now, 'row')} and {found.serving}, which serves, has "
            f"{before:,}; at least {rows_at_least:.2%} of them were requested. {name} is not "
            "promoted, and stays a candidate."
        )
        hint = (
            "Look at the differences with `hybrid generation compare P`. If they are right, run "
            "`hybrid generation promote P`; otherwise `hybrid generation discard P`."
        )
        raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)
    if is_audited is None:
        is_audited = loaded.pipeline.audit is not None and installed_audit() is not None
    if not promote:
        if is_audited and _audit(loaded, name, say).outcome == "failed":
            say(_ways_out(name))
        return read_serving(loaded)
    if (older := find_older_ranges(PipelineContext.require(loaded))) is not None:
        message = f"{older.message} {name} is not promoted, and stays a candidate."
        hint = f"Promote it nevertheless: `hybrid generation promote P`. {older.hint}"
        raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)
    if is_audited:
        _require_audit(loaded, name, say)
    return promotion.promote(loaded, by=by, say=say)


def _audit(loaded: LoadedPipeline, name: str, say: Say) -> KeptAudit:
    """Audit a candidate, say the verdict and keep it."""
    say(f"Generation {name}: audit, before its promotion")
    acting = of_one_generation(generations.acting_on(loaded, name, as_kept=True))
    with leaving(f"Generation {name} is not promoted, and stays a candidate."):
        kept = keep_audit(acting, audit(acting))
    say(f"Generation {name}: {kept.text}")
    return kept


def _require_audit(loaded: LoadedPipeline, name: str, say: Say) -> None:
    """Audit a candidate, as :func:`_audit`; refuse its promotion if the audit has failed.

    One that could not check everything holds nothing back, as a live run may write meanwhile.
    """
    kept = _audit(loaded, name, say)
    if kept.outcome == "failed":
        message = f"Generation {name} is not promoted, and stays a candidate. {kept.text}"
        hint = _ways_out(name)
        raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=name)


def _ways_out(name: str) -> str:
    """Return in sentences, with remedies, what to do if the audit of a candidate has failed."""
    return (
        f"See which rows differ: `hybrid audit P --generation {name}`. If the transform was "
        "changed, change the audit's query in the same way. If the rows are right, run `hybrid "
        "generation promote P`; otherwise `hybrid generation discard P`."
    )


class _Lines(Observer):
    """A line for each step, and for what it reports in words."""

    def __init__(self, generation: str, say: Say) -> None:
        self._generation = generation
        self._say = say
        self._told = 0

    def beat(self, step: Step[Any], beat: Heartbeat) -> None:
        """Say how much of a bounded source is read, at each quarter of it."""
        known = share_of(beat) if isinstance(step, BoundedStep) else None
        quarter = 0 if known is None else known[0] * 4 // known[1]
        if quarter > self._told:
            read = ", ".join(progress_parts(beat, None))
            self._say(f"generation {self._generation}: {step.name}: {read}")
        self._told = quarter

    def started(self, step: Step[Any]) -> None:
        self._say(f"generation {self._generation}: {step.name}")

    def noted(self, step: Step[Any], text: str) -> None:
        self._say(text)

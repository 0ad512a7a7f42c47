"""Promotion or rollback of several pipelines: readers get all of the generations, or none.

A candidate may follow the table of another one's candidate, as after a change of the first of two
tables in a row. The group is recorded in the state of its first pipeline, and each of its switches
names that file. Until the group has `begun`, no table is changed, and whoever finds it gives it up.
From then on whoever finds it completes it: one commit to each table, and then the records that the
new generations serve. Until the last of these commits all of them can be undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from hybrid_extensions.generations.switch import group_steps, refusals
from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.group_members import (
    BEGUN,
    GIVEN_UP,
    Group,
    candidates_of,
    earlier_of,
    tell_of_others,
)
from hybrid_extensions.generations.switch.lock import HeldSwitch, hold_switch_lock
from hybrid_extensions.generations.switch.progress import (
    Say,
    say_nothing,
    told_if_interrupted,
)
from hybrid_extensions.generations.switch.run import resume_requested
from orchestration.remedies import Remedy
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, StateError, leaving
from sources.planning.approval import require_approver
from sources.serving import Serving, Switch, newest_generation, pending_switch, read_serving
from spark_jobs.table.ownership.belonging import is_committed


def promote_group(
    pipelines: Sequence[LoadedPipeline], *, by: str | None = None, say: Say = say_nothing
) -> list[Serving]:
    """Promote the newest generations of several pipelines: all of them, or none.

    What may refuse one of them is asked before anything is changed. A candidate that follows the
    candidate of another one has read all rows of it by then, and goes on in its target. A group
    that was interrupted is completed or given up before, as by :func:`finish_group`.

    Args:
        pipelines: The pipelines.
        by: Who requests it; kept with the serving generations.
        say: Told each step that is done.

    Returns:
        Which generation serves now, for each pipeline in the order given.

    Raises:
        StateError: One of them can't be promoted, or follows a table that serves now and is
            replaced; nothing is changed. Or another process is changing a table (transient).
        InputError: ``approvers`` of one of them does not name ``by``; or its table can't replace
            its target.
        SeamError: A group that was interrupted is completed, and the hand-over of one of its live
            runs no longer passes its checks.
        RunError: A run can't be stopped, or a live run does not start after the commits.
        UnavailableError: A store, a broker or a cluster does not answer.
    """
    return _change(pipelines, by, say, is_rollback=False)


def roll_back_group(
    pipelines: Sequence[LoadedPipeline], *, by: str | None = None, say: Say = say_nothing
) -> list[Serving]:
    """Undo the last promotions of several pipelines: all of them, or none.

    As :func:`promote_group`. A live run that follows the table of another one reads on after the
    rollback of that one.

    Args:
        pipelines: The pipelines.
        by: Who requests it; kept with the serving generations.
        say: Told each step that is done.

    Returns:
        Which generation serves now, for each pipeline in the order given.

    Raises:
        StateError: One of them has no earlier generation that is kept, could not read on, or was
            changed alone since; nothing is changed. Or another process is changing a table
            (transient).
        InputError, SeamError, RunError, UnavailableError: As of :func:`promote_group`.
    """
    return _change(pipelines, by, say, is_rollback=True)


def _change(
    pipelines: Sequence[LoadedPipeline], by: str | None, say: Say, *, is_rollback: bool
) -> list[Serving]:
    for each in pipelines:
        to_do = "roll back a generation" if is_rollback else "promote a generation"
        by = require_approver(each.pipeline, by, to_do)
    for each in pipelines:
        if (left := each.state.read(Group.NAME, Group)) is not None:
            _settle(each, left, say)
    kind = "rollback" if is_rollback else "promotion"
    with leaving(f"The {kind} was not begun, so it changed nothing."):
        members = earlier_of(pipelines) if is_rollback else candidates_of(pipelines)
    group = Group(members=members, at_ms=now_ms(), by=by, is_rollback=is_rollback)
    loaded = {each.file: each.load() for each in members}
    home = loaded[members[0].file]
    with _told(loaded.values(), say):
        with _locks(loaded.values(), group.kind, by) as held:
            with leaving(f"The {group.kind} was not begun, so it changed nothing."):
                _require_none_pending(loaded.values())
                group_steps.check(group, loaded, say)
            if is_rollback:
                tell_of_others(pipelines, say)
            if home.state.put_if_absent(Group.NAME, group) != group:
                raise group_steps.ended_by_another(loaded.values())
            try:
                group_steps.prepare(group, loaded, say)
                begun = group.model_copy(update={"stage": BEGUN})
                if not home.state.replace_known(Group.NAME, group, begun):
                    raise group_steps.ended_by_another(loaded.values())
            except HybridError:
                group_steps.give_up_all(home, group, loaded)
                group_steps.resume_all(group, loaded)
                raise
            started = group_steps.execute(home, begun, loaded, held, say)
        group_steps.start_all(started, say)
    return [read_serving(each) for each in pipelines]


def finish_group(loaded: LoadedPipeline, switch: Switch, say: Say) -> None:
    """Complete a group that was interrupted; give it up if it had not begun, or was given up.

    Args:
        loaded: One of its pipelines.
        switch: The switch of that pipeline, which is part of a group.
        say: Told each step that is done.

    Raises:
        StateError: Another process is at it (transient); or as of :func:`promote_group`.
        InputError, SeamError, RunError, UnavailableError: As of :func:`promote_group`.
    """
    home = _home_of(switch)
    group = _group_of(home, switch.at_ms)
    if group is not None:
        _settle(home, group, say)
        return
    with _locks([loaded], f"end of the {switch.kind} of {switch.to}", switch.by):
        # Of a group that was given up before a process that was suspended has written this.
        group_steps.remove_switches([loaded], switch.at_ms, None)
    resume_requested(loaded, switch)


def abort_group(loaded: LoadedPipeline, switch: Switch, by: str | None, say: Say) -> None:
    """Give up a group of which not all tables are changed yet; all serve as before.

    Tables that are changed already are changed back.

    Args:
        loaded: One of its pipelines.
        switch: The switch of that pipeline.
        by: Who asked for it; None if unknown.
        say: Told each table that is changed back.

    Raises:
        StateError: All tables are changed, or one can't be changed back; or another process is at
            it (transient).
        InputError: A target can't be read.
        HybridError: It is given up, but a live run does not start: it stays requested.
    """
    home = _home_of(switch)
    if (group := _group_of(home, switch.at_ms)) is None:
        finish_group(loaded, switch, say)
        return
    members = {each.file: each.load() for each in group.members}
    with _locks(members.values(), f"abort of the {group.kind}", by):
        if (group := _group_of(home, switch.at_ms)) is None:
            raise group_steps.ended_by_another(members.values())
        if group.stage != GIVEN_UP:
            _require_way_back(group, members, switch)
        group_steps.give_up_all(home, group, members, by, say)
    group_steps.resume_all(group, members)


def _require_way_back(group: Group, members: Mapping[str, LoadedPipeline], switch: Switch) -> None:
    """Refuse to give up a group that is committed in all tables, or in one without a way back."""
    pending = [(each, pending_switch(each)) for each in members.values()]
    committed = [
        (each, its) for each, its in pending if its is not None and is_committed(each, its)
    ]
    is_recorded = group.stage == BEGUN and any(its is None for _, its in pending)
    if is_recorded or len(committed) == len(members):
        raise refusals.too_late(switch)
    for each, its in committed:
        with group_steps.naming(each):
            switch_steps.check_way_back(each, its)


def _home_of(switch: Switch) -> LoadedPipeline:
    """Return the pipeline in whose state the group of a switch is recorded.

    Raises:
        StateError: Its file declares another pipeline by now, so the group is not known.
    """
    home = load_pipeline(Path(switch.group or ""))
    if newest_generation(home) is not None:
        return home
    message = (
        f"The {switch.kind} of the group is recorded in the state of the pipeline that {home.path} "
        f"declared when it began. By now it declares `{home.pipeline.name}`, which has no state in "
        f"{home.pipeline.state}. This command changed nothing."
    )
    finish = Remedy("generation finish").command(str(home.path))
    hint = (
        f"Restore `name` and `state` in that file, complete the {switch.kind} ({finish}), and "
        "change them afterwards."
    )
    raise StateError(message, hint, pipeline=home.pipeline.name, file=str(home.path))


def _group_of(home: LoadedPipeline, at_ms: int) -> Group | None:
    """Return the group that was requested at a time; None if it is not there any more."""
    group = home.state.read(Group.NAME, Group)
    return None if group is None or group.at_ms != at_ms else group


def _settle(home: LoadedPipeline, found: Group, say: Say) -> None:
    """Complete a group that was interrupted, or give it up if it had not begun."""
    members = {each.file: each.load() for each in found.members}
    with _locks(members.values(), found.kind, found.by) as held:
        if (group := _group_of(home, found.at_ms)) is None:
            return
        if is_begun := group.stage == BEGUN:
            started = group_steps.execute(home, group, members, held, say)
        else:
            group_steps.give_up_all(home, group, members, say=say)
            say(f"The {group.kind} is given up: each of its pipelines serves as before.")
    if is_begun:
        group_steps.start_all(started, say)
    else:
        group_steps.resume_all(group, members)


@contextmanager
def _told(pipelines: Iterable[LoadedPipeline], say: Say) -> Iterator[None]:
    """Report how far each of the pipelines is if the body of ``with`` is interrupted."""
    with ExitStack() as stack:
        for each in pipelines:
            stack.enter_context(told_if_interrupted(each, partial(group_steps.say_of, say, each)))
        yield


@contextmanager
def _locks(
    pipelines: Iterable[LoadedPipeline], doing: str, by: str | None
) -> Iterator[Mapping[str, HeldSwitch]]:
    """Hold the locks of all pipelines in ``with``; refuse if one is taken."""
    with ExitStack() as stack:
        yield {
            str(each.path): stack.enter_context(hold_switch_lock(each, doing, by))
            for each in pipelines
        }


def _require_none_pending(pipelines: Iterable[LoadedPipeline]) -> None:
    for each in pipelines:
        if (switch := pending_switch(each)) is not None:
            message = (
                f"A {switch.kind} of pipeline `{each.pipeline.name}` to {switch.to} is under way, "
                "so no group can be promoted or rolled back that it is part of."
            )
            hint = f"Complete it first: {Remedy('generation finish').command(str(each.path))}."
            raise StateError(message, hint, transient=True, pipeline=each.pipeline.name)

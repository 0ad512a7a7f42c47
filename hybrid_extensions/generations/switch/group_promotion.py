"""Promotion of the candidates of several pipelines: readers get all of them, or none.

A candidate may follow the table of another one's candidate, as after a change of the first of two
tables in a row. The group is recorded in the state of its first pipeline, and each of its switches
names that file. Until the group has `begun`, no table is changed, and whoever finds it gives it up.
From then on whoever finds it completes it, switch by switch; each is one commit to its own table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.group_members import (
    BEGUN,
    GIVEN_UP,
    Group,
    Member,
    members_of,
    move_position,
    require_all_read,
    unread,
)
from hybrid_extensions.generations.switch.lock import HeldSwitch, hold_switch_lock
from hybrid_extensions.generations.switch.progress import Say, Steps, say_nothing
from hybrid_extensions.generations.switch.readiness import require_own, require_ready
from hybrid_extensions.generations.switch.run import (
    STEPS,
    do_all,
    give_up,
    resume_requested,
    run_steps,
    start,
)
from orchestration.comparison.installed_audit import query_misfit
from orchestration.remedies import Remedy
from sources.common.counting import counted
from sources.common.positions import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, StateError
from sources.generations import take_back_discard
from sources.planning.approval import require_approver
from sources.planning.context import PipelineContext
from sources.serving import (
    Serving,
    Switch,
    newest_generation,
    own_table,
    pending_switch,
    read_serving,
)
from sources.state.action_log import begin_action
from sources.storage.tables.delta import delta_table
from spark_jobs.launch import run_control
from spark_jobs.table.ownership.belonging import is_committed

_POLL_S = 0.3


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
        Which generation serves now, for each pipeline in the order of the promotions.

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
    for pipeline in pipelines:
        by = require_approver(pipeline.pipeline, by, "promote a generation")
        if (left := pipeline.state.read(Group.NAME, Group)) is not None:
            _settle(pipeline, left, say)
    members = members_of(pipelines)
    loaded = {each.file: each.load() for each in members}
    home = loaded[members[0].file]
    with _locks(list(loaded.values()), "promotion of a group", by) as held:
        _require_none_pending(list(loaded.values()))
        group = Group(members=members, at_ms=now_ms(), by=by)
        promoted = [own_table(loaded[each.file], each.to).url for each in members]
        for each in members:
            switch = _switch(group, each, loaded[each.file])
            to, _ = switch_steps.contexts(loaded[each.file], switch)
            require_own(to, promoted)
            require_ready(to)
            switch_steps.check(loaded[each.file], switch)
            if (misfit := query_misfit(to.loaded, each.to)) is not None:
                say(f"Warning: an audit of {each.to} would be refused. {misfit}")
            if each.follows is not None and unread(to):
                _require_running(to)
        names = ", ".join(f"{each.to} of {loaded[each.file].pipeline.name}" for each in members)
        say(f"checked: {names} can be promoted")
        if home.state.put_if_absent(Group.NAME, group) != group:
            raise _ended_by_another(home)
        try:
            _prepare(home, group, loaded, say)
            begun = group.model_copy(update={"stage": BEGUN})
            if not home.state.replace_known(Group.NAME, group, begun):
                raise _ended_by_another(home)
        except HybridError:
            _give_up(home, group, loaded)
            _resume(group, loaded)
            raise
        started = _execute(home, begun, loaded, held, say)
    _start(started, say)
    return [read_serving(each) for each in loaded.values()]


def finish_group(loaded: LoadedPipeline, switch: Switch, say: Say) -> None:
    """Complete the promotion of a group that was interrupted; give it up if it had not begun.

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
        _remove_switches([loaded], switch.at_ms, None)
    resume_requested(loaded, switch)


def abort_group(loaded: LoadedPipeline, switch: Switch, by: str | None) -> None:
    """Give up the promotion of a group of which no table is changed yet; all serve as before.

    Args:
        loaded: One of its pipelines.
        switch: The switch of that pipeline.
        by: Who asked for it; None if unknown.

    Raises:
        StateError: A table is changed already; or another process is at it (transient).
        HybridError: It is given up, but a live run does not start: it stays requested.
    """
    home = _home_of(switch)
    if (group := _group_of(home, switch.at_ms)) is None:
        finish_group(loaded, switch, say_nothing)
        return
    members = {each.file: each.load() for each in group.members}
    with _locks(list(members.values()), "abort of the promotion of a group", by):
        if (group := _group_of(home, switch.at_ms)) is None:
            raise _ended_by_another(home)
        for each in members.values():
            pending = pending_switch(each)
            is_done = group.stage == BEGUN and pending is None
            if is_done or (pending is not None and is_committed(each, pending)):
                raise switch_steps.too_late(switch)
        _give_up(home, group, members, by)
    _resume(group, members)


def _home_of(switch: Switch) -> LoadedPipeline:
    """Return the pipeline in whose state the group of a switch is recorded.

    Raises:
        StateError: Its file declares another pipeline by now, so the group is not known.
    """
    home = load_pipeline(Path(switch.group or ""))
    if newest_generation(home) is not None:
        return home
    message = (
        f"The promotion of the group is recorded in the state of the pipeline that {home.path} "
        f"declared when it began. By now it declares `{home.pipeline.name}`, which has no state in "
        f"{home.pipeline.state}."
    )
    hint = "Restore `name` and `state` in that file until the promotion of the group is completed."
    raise StateError(message, hint, pipeline=home.pipeline.name, file=str(home.path))


def _group_of(home: LoadedPipeline, at_ms: int) -> Group | None:
    """Return the group that was requested at a time; None if it is not there any more."""
    group = home.state.read(Group.NAME, Group)
    return None if group is None or group.at_ms != at_ms else group


def _settle(home: LoadedPipeline, found: Group, say: Say) -> None:
    """Complete a group that was interrupted, or give it up if it had not begun."""
    members = {each.file: each.load() for each in found.members}
    with _locks(list(members.values()), "promotion of a group", found.by) as held:
        if (group := _group_of(home, found.at_ms)) is None:
            return
        if is_begun := group.stage == BEGUN:
            started = _execute(home, group, members, held, say)
        else:
            _give_up(home, group, members)
            say("The promotion of the group had not begun, and is given up: nothing has changed.")
    if is_begun:
        _start(started, say)
    else:
        _resume(group, members)


@contextmanager
def _locks(
    pipelines: Sequence[LoadedPipeline], doing: str, by: str | None
) -> Iterator[Mapping[str, HeldSwitch]]:
    """Hold the locks of all pipelines in ``with``; refuse if one is taken."""
    with ExitStack() as stack:
        yield {
            str(each.path): stack.enter_context(hold_switch_lock(each, doing, by))
            for each in pipelines
        }


def _require_none_pending(pipelines: Sequence[LoadedPipeline]) -> None:
    for each in pipelines:
        if (switch := pending_switch(each)) is not None:
            message = (
                f"A {switch.kind} of pipeline `{each.pipeline.name}` to {switch.to} is under way, "
                "so no group can be promoted that it is part of."
            )
            hint = f"Complete it first: {Remedy('generation finish').command(str(each.path))}."
            raise StateError(message, hint, transient=True, pipeline=each.pipeline.name)


def _switch(group: Group, member: Member, loaded: LoadedPipeline) -> Switch:
    return Switch(
        to=member.to,
        past=read_serving(loaded).generation,
        at_ms=group.at_ms,
        is_rollback=False,
        by=group.by,
        group=group.members[0].file,
    )


def _prepare(
    home: LoadedPipeline, group: Group, loaded: Mapping[str, LoadedPipeline], say: Say
) -> None:
    """Record all switches, and end the runs, those of followers once they have read everything."""
    switches: dict[str, Switch] = {}
    for each in group.members:
        its = loaded[each.file]
        switch = _switch(group, each, its)
        before = {"serving": switch.past}
        action = begin_action(its.state, switch.kind, switch.by, switch.to, before)
        switch = switch.model_copy(update={"action": action})
        if its.state.put_if_absent(Switch.NAME, switch) != switch:
            raise _ended_by_another(home)
        if not take_back_discard(its, switch.to):
            raise switch_steps.discarded(switch)
        switches[each.file] = switch
    versions: dict[str, int] = {}
    for each in group.members:
        its, switch = loaded[each.file], switches[each.file]
        to, past = switch_steps.contexts(its, switch)
        if each.follows is not None:
            _wait_until_read(to, say)
        switch_steps.end_runs(to, past)
        if each.follows is not None:
            require_all_read(to, versions[each.follows])
        # Exactly these rows: what a driver that was taken for dead writes later is not of them.
        version = delta_table(own_table(its, each.to)).version()
        switch_steps.changed(its, switch, source_version=version)
        versions[each.file] = version
        say(f"{its.pipeline.name}: the runs are stopped; {each.to} has version {version:,}")


def _wait_until_read(context: PipelineContext, say: Say) -> None:
    """Wait while the live run reads; not for one that is stuck, while other streams are stopped."""
    source, is_told = context.pipeline.sources[-1].name, False
    patience_s = context.pipeline.supervision.end_stuck_after.total_seconds()
    least, since = 0, time.monotonic()
    while (waiting := unread(context)) and run_control.find_running(context.generation, source):
        if not least or waiting < least:
            least, since = waiting, time.monotonic()
        if time.monotonic() - since > patience_s:
            return
        if not is_told:
            files = counted(waiting, "file")
            say(f"{context.pipeline.name}: the live run reads {files} of the table before it")
        is_told = True
        time.sleep(max(_POLL_S, context.generation.poll_s))


def _require_running(context: PipelineContext) -> None:
    """Refuse a candidate that has rows of the followed candidate to read, and no run that does."""
    source, generation = context.pipeline.sources[-1].name, context.generation
    if run_control.find_running(generation, source) is not None:
        return
    message = (
        f"Pipeline `{context.pipeline.name}` can't be promoted: the live run of {generation.name} "
        f"is not running, and has not read all rows of the table that it follows by `{source}`."
    )
    run = Remedy("run").command(str(context.loaded.path))
    hint = f"Start it, {run}, and repeat the promotion of the group."
    raise StateError(message, hint, source=source, generation=generation.name)


def _execute(
    home: LoadedPipeline,
    group: Group,
    loaded: Mapping[str, LoadedPipeline],
    held: Mapping[str, HeldSwitch],
    say: Say,
) -> list[PipelineContext]:
    """Complete the switches that are left; return the generations whose runs are to be started."""
    started = []
    for each in group.members:
        its = loaded[each.file]
        switch = pending_switch(its)
        if switch is None or switch.at_ms != group.at_ms:
            # Completed before the interruption.
            continue
        steps = Steps(partial(_say_of, say, its.pipeline.name), STEPS, held[each.file].note)
        to = run_steps(its, steps, partial(_followers_go_on, group, loaded, each))
        if to is not None:
            started.append(to)
    home.state.delete(Group.NAME)
    return started


def _followers_go_on(
    group: Group, loaded: Mapping[str, LoadedPipeline], member: Member, switch: Switch
) -> None:
    """Let those that follow a member's candidate read on in its target, after its commit."""
    if switch.target_version is None:
        return
    for each in group.members:
        if each.follows == member.file:
            target = loaded[member.file].target
            move_position(loaded[each.file], each.to, target, switch.target_version + 1)


def _start(started: Sequence[PipelineContext], say: Say) -> None:
    """Start the live runs; the error of one is raised after the others are started."""
    do_all(
        started,
        lambda each: start(each, Steps(partial(_say_of, say, each.pipeline.name), 1, say_nothing)),
    )


def _say_of(say: Say, name: str, text: str) -> None:
    say(f"{name}: {text}")


def _give_up(
    home: LoadedPipeline,
    group: Group,
    loaded: Mapping[str, LoadedPipeline],
    by: str | None = None,
) -> None:
    """Remove the switches of a group of which none is committed, and then its record."""
    given_up = group.model_copy(update={"stage": GIVEN_UP})
    # Who has prepared it, and was suspended, does not begin it any more.
    if group != given_up and not home.state.replace_known(Group.NAME, group, given_up):
        raise _ended_by_another(home)
    _remove_switches(loaded.values(), group.at_ms, by)
    home.state.delete(Group.NAME)


def _remove_switches(pipelines: Iterable[LoadedPipeline], at_ms: int, by: str | None) -> None:
    for each in pipelines:
        switch = pending_switch(each)
        if switch is not None and switch.group is not None and switch.at_ms == at_ms:
            switch_steps.release(each, switch)
            give_up(each, switch, by)


def _resume(group: Group, loaded: Mapping[str, LoadedPipeline]) -> None:
    """Start the live runs of all members that are requested."""
    do_all(
        group.members,
        lambda each: resume_requested(loaded[each.file], _switch(group, each, loaded[each.file])),
    )


def _ended_by_another(home: LoadedPipeline) -> StateError:
    message = (
        "The promotion of the group is not continued by this process: another one has begun or "
        "ended one meanwhile."
    )
    listed = Remedy("generation list").command(str(home.path))
    hint = f"Look at {listed} before you try again."
    return StateError(message, hint, transient=True, pipeline=home.pipeline.name)

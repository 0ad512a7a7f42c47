"""Steps of the promotion or rollback of a group, each of which may repeat; and how to undo them.

:mod:`hybrid_extensions.generations.switch.group_switch` puts them in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from hybrid_extensions.generations.switch import steps as switch_steps
from hybrid_extensions.generations.switch.group_followers import (
    move_position,
    require_all_read,
    require_running,
    wait_until_read,
)
from hybrid_extensions.generations.switch.group_members import GIVEN_UP, Group, Member, on_each
from hybrid_extensions.generations.switch.lock import HeldSwitch
from hybrid_extensions.generations.switch.older_ranges import find_older_ranges
from hybrid_extensions.generations.switch.progress import Say, Steps, say_nothing
from hybrid_extensions.generations.switch.readiness import (
    require_input,
    require_not_deleted,
    require_own,
    require_ready,
)
from hybrid_extensions.generations.switch.run import (
    STEPS,
    commit_steps,
    do_all,
    give_up,
    overtaken,
    record_steps,
    resume_requested,
    start,
)
from orchestration import step_observers
from orchestration.comparison.installed_audit import query_misfit
from orchestration.remedies import Remedy, as_commands
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, StateError
from sources.planning.context import PipelineContext
from sources.serving import Switch, own_table, pending_switch, read_serving
from sources.state.action_log import begin_action
from sources.storage.tables.delta import delta_table
from spark_jobs.table.ownership.belonging import is_committed


def check(group: Group, loaded: Mapping[str, LoadedPipeline], say: Say) -> None:
    """Check all that can refuse one of a group; change nothing.

    Args:
        group: The group.
        loaded: Its pipelines by file.
        say: Told warnings, and that it can be done.

    Raises:
        StateError: One of them can't be promoted or rolled back.
        InputError: The table of one of them can't replace its target.
        SeamError: Kafka has deleted records that the live run of a rollback has not read.
        UnavailableError: A store, a broker or a cluster does not answer.
    """
    promoted = [own_table(loaded[each.file], each.to).url for each in group.members]
    brought_back = {
        loaded[each.file].target.url: served.version
        for each in group.members
        if (served := read_serving(loaded[each.file]).served(each.to)) is not None
    }
    for each in group.members:
        its = loaded[each.file]
        with naming(its):
            switch = group.switch_of(each, its)
            to, _ = switch_steps.contexts(its, switch)
            if group.is_rollback:
                require_not_deleted(to)
                require_input(to, brought_back)
            else:
                require_own(to, promoted)
                require_ready(to)
                if (older := find_older_ranges(to)) is not None:
                    say(f"Warning: {older.message} {older.hint}")
            switch_steps.check(its, switch)
            if not group.is_rollback and (misfit := query_misfit(to.loaded, each.to)) is not None:
                say(f"Warning: an audit of {each.to} would be refused. {misfit}")
            if each.follows is not None:
                require_running(to)
    names = ", ".join(f"{each.to} of {loaded[each.file].pipeline.name}" for each in group.members)
    say(f"checked: {names} can be {'rolled back to' if group.is_rollback else 'promoted'}")


def prepare(group: Group, loaded: Mapping[str, LoadedPipeline], say: Say) -> None:
    """Record all switches, and end the runs, those of followers once they have read everything.

    Args:
        group: The group.
        loaded: Its pipelines by file.
        say: Told each member that is done.

    Raises:
        HybridError: It can't be done for one of them: give the group up.
    """
    switches: dict[str, Switch] = {}
    for each in group.members:
        its = loaded[each.file]
        switch = group.switch_of(each, its)
        before = {"serving": switch.past}
        action = begin_action(its.state, switch.kind, switch.by, switch.to, before)
        switch = switch.model_copy(update={"action": action})
        if its.state.put_if_absent(Switch.NAME, switch) != switch:
            raise ended_by_another(loaded.values())
        if (refusal := overtaken(its, switch)) is not None:
            raise refusal
        switches[each.file] = switch
    versions: dict[str, int] = {}
    for each in group.members:
        its, switch = loaded[each.file], switches[each.file]
        with naming(its):
            to, past = switch_steps.contexts(its, switch)
            if each.follows is not None:
                wait_until_read(to, say)
            switch_steps.end_runs(to, past)
            if each.follows is not None:
                require_all_read(to, versions[each.follows])
            if not group.is_rollback:
                # Exactly these rows: what a driver that was taken for dead writes later is not of
                # them.
                versions[each.file] = delta_table(own_table(its, each.to)).version()
                switch_steps.changed(its, switch, source_version=versions[each.file])
                said = f"{each.to} has version {versions[each.file]:,}"
            else:
                said = f"{each.to} is kept"
        say(f"{its.pipeline.name}: the runs are stopped; {said}")


def execute(
    home: LoadedPipeline,
    group: Group,
    loaded: Mapping[str, LoadedPipeline],
    held: Mapping[str, HeldSwitch],
    say: Say,
) -> list[PipelineContext]:
    """Complete the switches that are left; return the generations whose runs are to be started.

    All are committed before one is recorded as done: until then all of them can be undone. Of those
    that were recorded before an interruption no run is returned: the supervision starts it.

    Args:
        home: The pipeline in whose state the group is recorded.
        group: The group, which has begun.
        loaded: Its pipelines by file.
        held: Their locks by file.
        say: Told each step that is done.

    Raises:
        HybridError: One of them can't be committed; names those that are, and how to go back.
    """
    steps = {
        file: Steps(partial(say_of, say, each), STEPS, held[file].note)
        for file, each in loaded.items()
    }
    committed: list[tuple[Member, Switch]] = []
    for each in group.members:
        its = loaded[each.file]
        switch = pending_switch(its)
        if switch is None or switch.at_ms != group.at_ms:
            # Recorded as done before the interruption, and so all are committed.
            continue
        with _naming_the_way_back(home, committed, loaded), naming(its):
            if not is_committed(its, switch) and (refusal := overtaken(its, switch)) is not None:
                raise refusal
            committed.append((each, commit_steps(its, switch, steps[each.file])))
    started = []
    for each, switch in committed:
        with naming(loaded[each.file]):
            _followers_go_on(group, loaded, each, switch)
            others = [file for file in loaded if file != each.file]
            started.append(record_steps(loaded[each.file], switch, steps[each.file], others))
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


def start_all(started: Sequence[PipelineContext], say: Say) -> None:
    """Start the live runs; the error of one is raised after the others are started.

    Raises:
        HybridError: One does not start; it stays requested.
    """

    def start_one(context: PipelineContext) -> None:
        with naming(context.loaded):
            start(context, Steps(partial(say_of, say, context.loaded), 1, say_nothing))

    do_all(started, start_one)


def give_up_all(
    home: LoadedPipeline,
    group: Group,
    loaded: Mapping[str, LoadedPipeline],
    by: str | None = None,
    say: Say = say_nothing,
) -> None:
    """Undo the steps of a group of which none is recorded as done, and remove its record.

    Tables that are committed already are changed back. Live runs that were ended for the group stay
    ended: call :func:`resume_all` afterwards.

    Args:
        home: The pipeline in whose state the group is recorded.
        group: The group.
        loaded: Its pipelines by file.
        by: Who asked for it; None if unknown.
        say: Told each table that is changed back.

    Raises:
        StateError: Another process is at it (transient); or files of the rows before are missing.
        InputError: A target can't be read.
        UnavailableError: A store does not answer.
    """
    given_up = group.model_copy(update={"stage": GIVEN_UP})
    # Who has prepared it, and was suspended, does not begin it any more.
    if group != given_up and not home.state.replace_known(Group.NAME, group, given_up):
        raise ended_by_another(loaded.values())
    remove_switches(loaded.values(), group.at_ms, by, say)
    home.state.delete(Group.NAME)


def remove_switches(
    pipelines: Iterable[LoadedPipeline], at_ms: int, by: str | None, say: Say = say_nothing
) -> None:
    """Undo the switches of a group that was requested at a time; none is recorded as done.

    Raises:
        HybridError: As of :func:`give_up_all`.
    """
    pending = [
        (each, switch)
        for each in pipelines
        if (switch := pending_switch(each)) is not None
        and switch.group is not None
        and switch.at_ms == at_ms
    ]
    for each, switch in pending:
        if is_committed(each, switch):
            with naming(each), step_observers.reported(each, step_observers.PROMOTION):
                switch_steps.take_back(each, switch)
            say(f"{each.pipeline.name}: readers see {switch.past} again")
    for each, switch in pending:
        with naming(each):
            switch_steps.release(each, switch)
            give_up(each, switch, by)


def resume_all(group: Group, loaded: Mapping[str, LoadedPipeline]) -> None:
    """Start the live runs of all members that are requested, after the group was given up.

    Raises:
        HybridError: One does not start; it stays requested, and the others are started.
    """

    def resume(each: Member) -> None:
        with naming(loaded[each.file]):
            resume_requested(loaded[each.file], group.switch_of(each, loaded[each.file]))

    do_all(group.members, resume)


@contextmanager
def naming(loaded: LoadedPipeline) -> Iterator[None]:
    """Let the ways out of an error raised in ``with`` name a member's file; it is raised again."""
    try:
        yield
    except HybridError as error:
        path = str(loaded.path)
        error.message, error.hint = (
            as_commands(each, path) for each in (error.message, error.hint)
        )
        raise


@contextmanager
def _naming_the_way_back(
    home: LoadedPipeline,
    committed: Sequence[tuple[Member, Switch]],
    loaded: Mapping[str, LoadedPipeline],
) -> Iterator[None]:
    """Add to an error raised in ``with`` who is changed already, and how to give all of it up."""
    try:
        yield
    except HybridError as error:
        changed = " and ".join(
            f"{switch.to} of `{loaded[each.file].pipeline.name}`" for each, switch in committed
        )
        if changed:
            error.message = (
                f"{error.message} Of the group, readers see {changed} already; no run of these "
                "pipelines starts until all are changed, or none."
            )
        abort = Remedy("generation abort").command(str(home.path))
        error.hint = (
            f"{error.hint} Or go back in all of them, as before the group: {abort}.".strip()
        )
        raise


def say_of(say: Say, loaded: LoadedPipeline, text: str) -> None:
    """Pass a text about a member on, with its name, and ways out that name its file."""
    say(f"{loaded.pipeline.name}: {as_commands(text, str(loaded.path))}")


def ended_by_another(members: Collection[LoadedPipeline]) -> StateError:
    """Return (do not raise) the error of a process whose group another one has begun or ended.

    Raise it only where this process has changed no table of the group.

    Args:
        members: The group's pipelines, the first of which has its record.
    """
    listed = on_each("generation list", [each.path for each in members])
    message = (
        "Another process has begun or ended a promotion or rollback of the group, so this one does "
        "not continue. It has changed no table; what readers see is decided by the other one."
    )
    hint = (
        f"See which generations serve: {listed}. If they are those that you want, there "
        "is nothing to do. Otherwise try again: that first completes, or gives up, what was left "
        "unfinished, and is refused while another process is at work."
    )
    return StateError(message, hint, transient=True, pipeline=next(iter(members)).pipeline.name)

"""Candidates that follow another candidate of their group: they read all of it, then its target."""

from __future__ import annotations

import time

from hybrid_extensions.generations.switch.progress import Say
from hybrid_extensions.generations.switch.steps import context_of
from orchestration.remedies import Remedy
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.files.tables.table_commits import TableCommits
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.passed_range import pass_range
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import read_heartbeat

_POLL_S = 0.3


def unread(context: PipelineContext) -> int:
    """Return how many files of a followed table are not committed yet, found or not.

    Args:
        context: A generation that follows a table.

    Raises:
        InputError: The table removes or rewrites rows.
        StateError: The generation follows no table, or its state is damaged.
        UnavailableError: A store does not answer.
    """
    folder = GrowingFolder(context)
    beat = read_heartbeat(context.generation, context.pipeline.sources[-1].name)
    done = 0 if beat is None or beat.splits_done is None else beat.splits_done
    return len(folder.undiscovered()) + folder.splits - done


def require_all_read(context: PipelineContext, version: int) -> None:
    """Refuse a candidate that has not read the followed candidate's table up to a version exactly.

    Its runs have ended.

    Args:
        context: The candidate.
        version: Version of the table that it follows.

    Raises:
        InputError: The table that it follows removes or rewrites rows, is another one, or is gone.
        StateError: It has read less, or more.
        UnavailableError: A store does not answer.
    """
    position, source = GrowingFolder(context).position, context.pipeline.sources[-1].name
    if position is not None:
        commits = TableCommits(source, context.loaded.place(position.place))
        newest = commits.appended_after(position, to_read=False).position.version
        if not unread(context) and newest == version:
            return
    message = (
        f"Candidate {context.generation.name} of pipeline `{context.pipeline.name}` has not read "
        f"the table that it follows by `{source}` exactly up to version {version:,}, at which that "
        "one is to be promoted. Nothing was promoted."
    )
    look = Remedy("status", ("--generation", context.generation.name))
    hint = f"Look at {look.command(str(context.loaded.path))}, then promote the group again."
    raise StateError(message, hint, transient=True, source=source)


def move_position(follower: LoadedPipeline, generation: str, target: Folder, version: int) -> None:
    """Let a candidate that has followed another one's table read on in the target of that one.

    May be repeated.

    Args:
        follower: The pipeline that follows.
        generation: Name of its candidate, whose runs have ended.
        target: Folder of the target, which has the same rows now.
        version: Version of the target by the commit that put them there.

    Raises:
        InputError: The kept declaration of the candidate is not valid.
        StateError: The state can't be read or written.
        UnavailableError: A store does not answer.
    """
    context = context_of(follower, generation)
    source = context.pipeline.sources[-1].name
    table_id = str(delta_table(target, version).metadata().id)
    position = TableCommits(source, target).position(table_id, version)
    pass_range(context.generation, source, position)


def wait_until_read(context: PipelineContext, say: Say) -> None:
    """Wait while the live run of a follower reads; not for one that is stuck.

    The streams of others are stopped meanwhile. Returns when all was read, or when the run has
    ended or is stuck: ask :func:`require_all_read` which of them it is.

    Args:
        context: The candidate that follows, whose live run may have ended.
        say: Told once what is waited for.

    Raises:
        InputError: The followed table removes or rewrites rows.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
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


def require_running(context: PipelineContext) -> None:
    """Refuse a candidate that has rows of the followed candidate to read, and no run that does.

    Raises:
        StateError: Its live run is not running.
        InputError: The followed table removes or rewrites rows, or a cluster's command line tool is
            not installed.
        UnavailableError: A store or a cluster does not answer.
    """
    source, generation = context.pipeline.sources[-1].name, context.generation
    if not unread(context) or run_control.find_running(generation, source) is not None:
        return
    message = (
        f"Pipeline `{context.pipeline.name}` can't be promoted: the live run of {generation.name} "
        f"is not running, and has not read all rows of the table that it follows by `{source}`."
    )
    run = Remedy("run").command(str(context.loaded.path))
    hint = f"Start it, {run}, and repeat the promotion of the group."
    raise StateError(message, hint, source=source, generation=generation.name)

"""Members of a group that is promoted together: their order, and which follows which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from orchestration.remedies import Remedy
from sources.common.positions import Part, Record
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.files.tables.table_commits import TableCommits
from sources.kept_definitions import declaration_of
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.passed_range import pass_range
from sources.serving import own_table, require_candidate
from sources.state.generation import read_generation
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from spark_jobs.run_state.heartbeat import read_heartbeat

Stage = Literal["preparing", "begun", "given up"]
PREPARING: Stage = "preparing"
"""Stage of a group while its switches are recorded, and its runs are ended."""
BEGUN: Stage = "begun"
"""Stage of a group from which on all its switches are completed."""
GIVEN_UP: Stage = "given up"
"""Stage of a group whose switches are being removed."""


class Member(Part):
    """Pipeline whose candidate is promoted together with others.

    Attributes:
        file: The pipeline's file.
        to: Name of its candidate.
        follows: File of the member whose candidate's table this candidate follows; None if it does
            not follow one of them.
    """

    file: str
    to: str
    follows: str | None = None

    def load(self) -> LoadedPipeline:
        """Load the pipeline.

        Raises:
            InputError: Its file is gone or not valid.
        """
        return load_pipeline(Path(self.file))


class Group(Record):
    """Promotion of several candidates in progress; in the state of its first member.

    Attributes:
        members: The members, each after the one that it follows.
        at_ms: When the promotion was requested, in Unix milliseconds; its switches have the same.
        by: Who requested it, as given; None if no name was given.
        stage: How far it is.
    """

    NAME: ClassVar = "group-promotion.json"

    members: list[Member]
    at_ms: int
    by: str | None = None
    stage: Stage = PREPARING


def members_of(pipelines: Sequence[LoadedPipeline]) -> list[Member]:
    """Return the members of a group of pipelines, each after the one that it follows.

    Args:
        pipelines: The pipelines, each with a candidate.

    Raises:
        InputError: The kept declaration of a candidate that follows a table is not valid.
        StateError: One has no candidate, or its candidate follows the table that serves now of
            another one, whose rows are replaced.
        UnavailableError: A store does not answer.
    """
    candidates: dict[str, tuple[LoadedPipeline, str]] = {}
    for each in pipelines:
        begin, run = (Remedy(name).command(str(each.path)) for name in ("generation new", "run"))
        hint = f"Begin a new generation, {begin}, and run it: {run}."
        candidates[str(each.path)] = (each, require_candidate(each, hint))
    members = [
        Member(file=file, to=to, follows=_followed(loaded, to, candidates))
        for file, (loaded, to) in candidates.items()
    ]
    ordered: list[Member] = []
    while rest := [each for each in members if each not in ordered]:
        known = {None, *(each.file for each in ordered)}
        # Pipelines can't follow each other in a circle.
        ordered += [each for each in rest if each.follows in known]
    return ordered


def _followed(
    loaded: LoadedPipeline, to: str, candidates: Mapping[str, tuple[LoadedPipeline, str]]
) -> str | None:
    """Return the file of the pipeline whose candidate's table a candidate follows, if any."""
    if loaded.pipeline.growing_folder is None:
        return None
    context = context_of(loaded, to)
    position = GrowingFolder(context).position
    if position is None:
        return None
    for file, (other, candidate) in candidates.items():
        if position.place == own_table(other, candidate).url:
            return file
        if position.place == other.target.url:
            message = (
                f"Candidate {to} of pipeline `{loaded.pipeline.name}` follows the table of "
                f"`{other.pipeline.name}` that serves now, whose rows the promotion of {candidate} "
                "replaces: it could not read on after that."
            )
            hint = (
                f"Discard it, {Remedy('generation discard').command(str(loaded.path))}; declare "
                f"`generation: {candidate}` for its source `{context.pipeline.sources[-1].name}`, "
                "and compute it again."
            )
            raise StateError(message, hint, pipeline=loaded.pipeline.name, generation=to)
    return None


def context_of(loaded: LoadedPipeline, generation: str) -> PipelineContext:
    """Return a generation of a pipeline with the declaration by which it runs.

    Raises:
        InputError: The kept declaration is not valid, or needs an environment variable that is not
            set.
        StateError: There is no generation of that name, its kept declaration is missing, or the
            state is damaged.
        UnavailableError: The state's store does not answer.
    """
    state = read_generation(loaded.state, generation)
    return PipelineContext(declaration_of(loaded, generation), state)


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
        f"the table that it follows by `{source}` up to version {version:,}, at which that one is "
        "to be promoted. Nothing was promoted."
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

"""Members of a group that is promoted or rolled back together: their order, who follows whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from hybrid_extensions.generations.candidate import require_candidate
from hybrid_extensions.generations.switch.progress import Say
from hybrid_extensions.generations.switch.readiness import require_earlier
from hybrid_extensions.generations.switch.steps import context_of
from orchestration.remedies import Remedy
from sources.common.state_document import Part, Record
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.planning.files.discovery import GrowingFolder
from sources.serving import Switch, own_table, read_serving

Stage = Literal["preparing", "begun", "given up"]
PREPARING: Stage = "preparing"
"""Stage of a group while its switches are recorded, and its runs are ended."""
BEGUN: Stage = "begun"
"""Stage of a group from which on all its switches are completed."""
GIVEN_UP: Stage = "given up"
"""Stage of a group whose switches are being removed."""


class Member(Part):
    """Pipeline whose serving generation is changed together with those of others.

    Attributes:
        file: The pipeline's file.
        to: Name of the generation that is to serve: its candidate, or one that served before.
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
            StateError: The file is the copy of a generation, and the note of its origin is damaged.
        """
        return load_pipeline(Path(self.file))


class Group(Record):
    """Promotion or rollback of several pipelines in progress; in the state of its first member.

    Attributes:
        members: The members, each after the one that it follows.
        at_ms: When it was requested, in Unix milliseconds; its switches have the same.
        by: Who requested it, as given; None if no name was given.
        stage: How far it is.
        is_rollback: Whether the generations that are to serve have served before.
    """

    NAME: ClassVar = "group-promotion.json"

    members: list[Member]
    at_ms: int
    by: str | None = None
    stage: Stage = PREPARING
    is_rollback: bool = False

    @property
    def kind(self) -> str:
        """``rollback of a group`` or ``promotion of a group``."""
        return "rollback of a group" if self.is_rollback else "promotion of a group"

    def switch_of(self, member: Member, loaded: LoadedPipeline) -> Switch:
        """Return the switch of a member, which is not recorded yet.

        Raises:
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """
        return Switch(
            to=member.to,
            past=read_serving(loaded).generation,
            at_ms=self.at_ms,
            is_rollback=self.is_rollback,
            by=self.by,
            group=self.members[0].file,
        )


def candidates_of(pipelines: Sequence[LoadedPipeline]) -> list[Member]:
    """Return the members of a group that is promoted, each after the one that it follows.

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


def on_each(action: str, files: Sequence[object]) -> str:
    """Return the commands that do something on each of several pipelines, joined by "and".

    Args:
        action: Name of the command, such as ``generation list``.
        files: Paths of the pipelines' files.
    """
    return " and ".join(Remedy(action).command(str(each)) for each in files)


def earlier_of(pipelines: Sequence[LoadedPipeline]) -> list[Member]:
    """Return the members of a group that is rolled back, in the order given.

    Raises:
        StateError: One has no earlier generation that is kept; or two were changed together, and
            one of them alone since.
        UnavailableError: A store does not answer.
    """
    together = {str(each.path): read_serving(each).together for each in pipelines}
    for file, others in together.items():
        for other in others:
            if other in together and file not in together[other]:
                message = (
                    f"{file} and {other} can't be rolled back together: {other} was promoted or "
                    "rolled back alone after both were changed together, so one of them would go "
                    "back, and the other one forward. Nothing was changed."
                )
                listed, alone = (
                    on_each(f"generation {to_do}", [other, file]) for to_do in ("list", "rollback")
                )
                hint = f"Look at both, {listed}; then change each alone: {alone}."
                raise StateError(message, hint, file=other)
    return [Member(file=str(each.path), to=require_earlier(each)) for each in pipelines]


def tell_of_others(pipelines: Sequence[LoadedPipeline], say: Say) -> None:
    """Say which pipelines were changed together with some that are rolled back, and stay.

    Args:
        pipelines: The pipelines that are rolled back.
        say: Told a sentence for each of them that was changed together with others.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    named = {str(each.path) for each in pipelines}
    for each in pipelines:
        serving = read_serving(each)
        if others := [file for file in serving.together if file not in named]:
            back = " and ".join(Remedy("generation rollback").command(file) for file in others)
            say(
                f"Warning: {serving.generation} of {each.pipeline.name} began to serve together "
                f"with those of {' and '.join(others)}, which stay as they are. A live run of "
                "theirs that follows this table stops at its next look, until it is rolled back, "
                f"too: {back}."
            )


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

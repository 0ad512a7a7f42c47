"""Error types: what is wrong, which value, what to do now, and whether waiting helps.

Every error that this project raises on purpose is a :class:`HybridError`. Whoever decides what
happens next, be it Dagster's retries, the supervision of the live run or a program that reads
``--json``, looks at ``transient`` and at the fields, never at the text.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypedDict, Unpack, cast

from pydantic import BaseModel, ConfigDict, Field

COMMITTED_STAYS = "What is committed stays in the table, and is not read again."
"""What a step, or a command that controls a run, leaves if it fails."""


class ErrorFields(TypedDict, total=False):
    """Values that an error names, for programs; a key is left out where it does not apply.

    Never holds a secret: the fields are printed, and land in metadata and state.

    Attributes:
        pipeline: Name of the pipeline.
        generation: Name of the generation, such as ``g2``.
        source: Name of the source.
        topic: Kafka topic.
        partition: Partition of the topic.
        offset: Offset in the partition.
        position: Position of a change in the log of a captured database.
        connector: Name of the connector of a captured database, the prefix of its topics.
        file: Path or URL of a file or folder.
        line: Line in the file, from 1.
        table: Database table or Delta table.
        column: Column of a row.
        field: Field of the pipeline's declaration, dotted.
        value: The value that is refused, as text.
        server: Address of a broker, store, database, registry or cluster.
        extra: Optional part of this package that has to be installed.
    """

    pipeline: str
    generation: str
    source: str
    topic: str
    partition: int
    offset: int
    position: str
    connector: str
    file: str
    line: int
    table: str
    column: str
    field: str
    value: str
    server: str
    extra: str


class ErrorReport(BaseModel):
    """An error as a document: what ``--json`` prints and a driver's heartbeat carries.

    Attributes:
        kind: Which type of error, by a name that stays (:attr:`HybridError.kind`).
        message: What is wrong, and which value.
        effect: What became of the data, where the message does not say it: a sentence, or empty.
        hint: What to do now.
        transient: Whether the same attempt may succeed later without any change.
        fields: What the error is about: keys of :class:`ErrorFields` and their values.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    message: str
    effect: str = ""
    hint: str = ""
    transient: bool = False
    fields: dict[str, str | int] = Field(default_factory=dict)

    def __str__(self) -> str:
        return _joined(self.message, self.effect, self.hint)


class HybridError(Exception):
    """Base of every error that this project raises on purpose.

    Args:
        message: What is wrong, and which value: a sentence.
        hint: What to do now: a sentence. Required, so that no error leaves people without it.
        transient: Whether the same attempt may succeed later without any change; the default of
            the error type, if left out.
        fields: What the error is about, by the keys of :class:`ErrorFields`.

    Attributes:
        kind: Name of the error type for programs; it stays the same if a class is renamed.
        effect: What became of the data, where the message does not say it (:func:`leaving`).
    """

    kind: ClassVar[str] = "error"
    effect: str = ""
    transient: bool = False

    def __init__(
        self,
        message: str,
        hint: str,
        *,
        transient: bool | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields
        if transient is not None:
            self.transient = transient

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Return how pickle restores the error in another process, with all attributes.

        An exception's own way calls ``__init__`` with the message only.
        """
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return _joined(self.message, self.effect, self.hint)

    def report(self) -> ErrorReport:
        """Return the error as a document, which ``--json`` prints and heartbeats carry."""
        return ErrorReport(
            kind=self.kind,
            message=self.message,
            effect=self.effect,
            hint=self.hint,
            transient=self.transient,
            fields=cast("dict[str, str | int]", dict(self.fields)),
        )


def _joined(*parts: str) -> str:
    """Return the parts of an error's text as one, in which each ends before the next one begins.

    A message may end with a text of others, such as a path, which has no full stop.
    """
    text = ""
    for part in filter(None, parts):
        between = "\n" if "\n" in text else " " if text.endswith((".", "!", "?", ":")) else ". "
        text = f"{text}{between}{part}" if text else part
    return text


@contextmanager
def leaving(effect: str) -> Iterator[None]:
    """Let errors within ``with`` tell what became of the data, unless they tell it themselves.

    Used by whoever knows what is being done, such as a step of a chain. Errors of other types pass
    as they are.

    Args:
        effect: A sentence, such as ``Nothing was changed.``; empty if it is not known.
    """
    try:
        yield
    except HybridError as error:
        if not error.effect and "othing was" not in str(error):
            error.effect = effect
        raise


class InputError(HybridError, ValueError):
    """Error of the declaration or the data, which can't be used; nothing was written.

    Also a ``ValueError``, so that Pydantic's validators may raise it.
    """

    kind = "input"


class UnavailableError(HybridError):
    """Error of a broker, store, database, registry or cluster that does not answer; transient."""

    kind = "unavailable"
    transient = True


class SeamError(HybridError):
    """Error of a hand-over between two sources that would lose rows, or deliver rows twice."""

    kind = "seam"


class StateError(HybridError):
    """Error of a step that the state does not allow: out of turn, in use, damaged or replaced."""

    kind = "state"


class RunError(HybridError):
    """Error of a launched process that failed, or ended without having done its work.

    Transient unless the process reported a failure that waiting does not correct: after a driver
    was killed, or lost by its cluster, another attempt may succeed.
    """

    kind = "run"
    transient = True


def error_of(report: ErrorReport) -> HybridError:
    """Return the error that another process reported, with its type, hint and fields.

    A report of an unknown type becomes an :class:`InputError`.
    """
    types: tuple[type[HybridError], ...] = (UnavailableError, SeamError, StateError, RunError)
    kind = next((each for each in types if each.kind == report.kind), InputError)
    made = kind(report.message, report.hint, transient=report.transient)
    made.effect = report.effect
    made.fields.update(report.fields)  # type: ignore[typeddict-item]
    return made

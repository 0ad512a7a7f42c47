"""Interface of second sinks: position, interrupted deliveries, one follower, comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import pyarrow as pa

from hybrid_extensions.feeds.position import Held, Position
from sources.errors import ErrorFields, InputError, StateError

AGAIN = "A follower tries again by itself; otherwise run the command again."
"""What every refusal of a sink ends with."""
REPEATED = "A delivery that broke off is repeated as a whole."
"""What becomes of the data if a sink fails while it is fed."""


def delivered_meanwhile(feed: str, fields: ErrorFields) -> StateError:
    """Return (do not raise) the error of a comparison during which something was delivered.

    Args:
        feed: Name of the feed.
        fields: What the error is about.
    """
    message = (
        f"Feed `{feed}` was delivered while it was compared, so the comparison proves nothing. It "
        "wrote nothing."
    )
    hint = "Compare again; if this happens each time, end the follower of the feed meanwhile."
    return StateError(message, hint, transient=True, **fields)


@dataclass(frozen=True)
class Comparison:
    """Comparison of some rows of a version of the target with the rows of a sink.

    Attributes:
        number: Version of the Delta table.
        compared: Number of rows that were compared, chosen at random.
        different: How many of the compared rows differ in the sink, or are missing from it.
        examples: Keys of some of the different rows, as text.
        rows: Number of all rows of the table.
        sink_rows: Number of all rows of the sink.
    """

    number: int
    compared: int
    different: int
    examples: list[str]
    rows: int
    sink_rows: int

    @property
    def share(self) -> float:
        """Share of the compared rows that are equal, from 0 to 1; 1 if none was compared."""
        return 1 - self.different / self.compared if self.compared else 1.0

    @property
    def agrees(self) -> bool:
        """Whether no compared row differs, and table and sink have as many rows."""
        return not self.different and self.rows == self.sink_rows


EXAMPLES = 5
"""Most keys that a comparison names."""
Form = Literal["text", "json", "fields", "arrow"]
"""How a sink gets rows; :meth:`hybrid_extensions.feeds.rows.Rows.read` says what each form is."""


class FeedSink(ABC):
    """Second sink of a pipeline; a context manager that closes its connections.

    A follower calls :meth:`held`, then either :meth:`begin` and :meth:`apply`, or :meth:`load`.

    A sink that applies a delivery in one transaction has nothing pending. Any other one records
    :meth:`begin` first: a delivery that was interrupted is repeated as it was, since a row may
    change and change back, and the changes to a later version would lack it.

    Several followers may use a sink at a time: all but one of them fail, and nothing of an older
    delivery is written after a newer one.

    Attributes:
        form: How the sink gets rows; see :meth:`hybrid_extensions.feeds.rows.Rows.read`.
    """

    form: ClassVar[Form]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the connections; uncommitted changes are rolled back. May be called again."""

    @abstractmethod
    def held(self, columns: pa.Schema) -> Held:
        """Return the position that the sink has recorded; create what a new sink needs.

        Args:
            columns: Columns that are delivered, with the table's types.

        Raises:
            InputError: The sink can't take the rows, refuses the login, or is used by another feed.
            StateError: Another follower feeds the sink.
            UnavailableError: The sink does not answer.
        """

    @abstractmethod
    def begin(self, position: Position) -> None:
        """Record, if the sink needs it, that changes up to a position are about to be applied.

        Called before :meth:`apply`, unless a delivery to that position was begun before.

        Raises:
            InputError: The sink refuses the login.
            StateError: Another follower feeds the sink.
            UnavailableError: The sink does not answer.
        """

    @abstractmethod
    def apply(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Apply the changes since the sink's position, and record the new position.

        Args:
            rows: A row for each key that changed, in the order of keys, in the sink's ``form``,
                with ``_is_deleted``.
            end: The new position.

        Raises:
            InputError: A row can't be stored.
            StateError: Another follower feeds the sink.
            UnavailableError: The sink does not answer.
        """

    def standing_still(self, columns: pa.Schema) -> AbstractContextManager[Held]:
        """Return a context manager in which a comparison sees the sink at one position.

        It yields that position. Sinks whose rows can't be looked up by key raise InputError at
        once.

        Args:
            columns: Columns that are delivered, with the table's types.

        Raises:
            InputError: Rows of the sink can't be looked up.
            StateError: The sink was fed meanwhile.
            UnavailableError: The sink does not answer.
        """
        kind = type(self).__name__.removesuffix("Sink").lower()
        message = f"A feed of `type: {kind}` can't be compared: its rows can't be looked up by key."
        hint = (
            "Only feeds of `type: postgres` and `type: redis` can be compared; leave this one out."
        )
        raise InputError(message, hint)

    def compare(self, rows: pa.RecordBatchReader) -> tuple[int, list[str], int]:
        """Compare rows of the table with the sink, within :meth:`standing_still`.

        Args:
            rows: The rows, in the sink's ``form``, of the version that it has.

        Returns:
            How many of the rows differ or are missing, the keys of some as text, and the number of
            all rows of the sink.

        Raises:
            NotImplementedError: The sink's rows can't be looked up.
            InputError: The sink refuses the login or the look-up.
            UnavailableError: The sink does not answer.
        """
        raise NotImplementedError

    @abstractmethod
    def load(self, rows: pa.RecordBatchReader, end: Position) -> None:
        """Replace the sink's content by the given rows, and record the position.

        Args:
            rows: All rows of the table, in the sink's ``form``, with ``_is_deleted``, which is
                false.
            end: The new position.

        Raises:
            InputError: A row can't be stored.
            StateError: Another follower feeds the sink.
            UnavailableError: The sink does not answer.
        """

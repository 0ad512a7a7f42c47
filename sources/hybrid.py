"""The hybrid source (FLIP-150) at the level of jobs: a chain of sources, and their switch.

https://cwiki.apache.org/confluence/display/FLINK/FLIP-150%3A+Introduce+Hybrid+Source
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from sources.common.positions import EndPosition, StartPosition
from sources.common.topic_log import Log
from sources.errors import InputError, SeamError, StateError
from sources.state.generation import Generation


class Boundedness(Enum):
    """Whether a source has an end (FLIP-27)."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous_unbounded"


class Source(Protocol):
    """A source as the chain sees it: any object with a unique name and a boundedness."""

    @property
    def name(self) -> str:
        """Name of the source, unique in the chain; the state is kept by it."""

    @property
    def boundedness(self) -> Boundedness:
        """``BOUNDED`` if the source has an end, else ``CONTINUOUS_UNBOUNDED``."""


S_co = TypeVar("S_co", bound=Source, covariant=True)
S = TypeVar("S", bound=Source)


class HybridSourceBuilder(Generic[S]):
    """Builder of a chain of sources, with the rules of Flink's ``HybridSourceBuilder``.

    Each source is checked as it is added: names are unique, and only the last source may have no
    end.
    """

    def __init__(self) -> None:
        self._sources: list[S] = []

    def add_source(self, source: S) -> HybridSourceBuilder[S]:
        """Append a source to the chain; returns this builder, for further calls.

        Args:
            source: The source; all but the last one have to be bounded.

        Raises:
            InputError: An earlier source has the same name, or the source before has no end.
        """
        if any(source.name == other.name for other in self._sources):
            message = f"Two sources are named `{source.name}`; the state is kept by this name."
            hint = "Give each source under `sources` a `name` of its own."
            raise InputError(message, hint, source=source.name)
        if self._sources and self._sources[-1].boundedness is not Boundedness.BOUNDED:
            last = self._sources[-1].name
            message = f"Source `{last}` has no end but is not the last: `{source.name}` follows."
            hint = (
                f"Give `{last}` an end (`until` for a topic, no `discovery_interval` for files), "
                "or move it to the end of `sources`."
            )
            raise InputError(message, hint, source=last)
        self._sources.append(source)
        return self

    def build(self) -> HybridSource[S]:
        """Return the chain of the sources that were added.

        Raises:
            InputError: No source was added.

        """
        if not self._sources:
            message = "The chain has no sources."
            hint = "List at least one source, with `type` and `name`, under `sources`."
            raise InputError(message, hint, field="sources")
        return HybridSource(tuple(self._sources))


@dataclass(frozen=True)
class HybridSource(Generic[S_co]):
    """Chain of at least one source, read one after the other as if they were a single one.

    Made by :meth:`builder`, which checks the sources. Files that end, then a topic that does not:

    >>> from typing import NamedTuple
    >>> class Part(NamedTuple):
    ...     name: str
    ...     boundedness: Boundedness
    >>> history = Part("history", Boundedness.BOUNDED)
    >>> live = Part("live", Boundedness.CONTINUOUS_UNBOUNDED)
    >>> chain = HybridSource.builder().add_source(history).add_source(live).build()
    >>> chain.boundedness, chain.index("live")
    (<Boundedness.CONTINUOUS_UNBOUNDED: 'continuous_unbounded'>, 1)

    What follows a source without an end would never be read, so it is refused:

    >>> HybridSource.builder().add_source(live).add_source(history)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    sources.errors.InputError: Source `live` has no end but is not the last: `history` follows. ...
    """

    sources: tuple[S_co, ...]

    @staticmethod
    def builder() -> HybridSourceBuilder[S]:
        """Return a builder without sources; add them in reading order, then build the chain."""
        return HybridSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        """Boundedness of the chain, which is that of its last source."""
        return self.sources[-1].boundedness

    def index(self, name: str) -> int:
        """Return the position of a source in the chain, from 0.

        Raises:
            InputError: The chain has no source of that name.

        """
        names = [source.name for source in self.sources]
        if name not in names:
            message = f"There is no source `{name}` in the pipeline."
            raise InputError(message, f"Name one of {', '.join(names)}.", source=name)
        return names.index(name)


@dataclass(frozen=True)
class SourceSwitchContext:
    """Input of a source factory: what is known when the start of the next source is decided.

    Attributes:
        previous: End position of the previous source; None if there is none. (Flink passes None
            after a failure, too: FLINK-38345. Here it is read from the state.)
        log: Look-ups on the topics of the source to be started.

    """

    previous: EndPosition | None
    log: Log


SourceFactory = Callable[[SourceSwitchContext], StartPosition]
"""Turns the end position of one source into the start position of the next.

What it returns at the hand-over is kept, and it is not called again. It is also called earlier, for
the plan, so it must have no side effects.
"""


class SwitchState:
    """Switch positions of a generation: where each source ended, and where the next one starts.

    A generation is one computation of the whole table. Each position is written exactly once, to
    the generation's state folder, so a new instance continues where another one stopped. All
    methods raise InputError for a name that no source of the chain has, where they look it up in
    the chain, StateError for a position that is damaged, and UnavailableError if the state's store
    does not answer.
    """

    def __init__(self, chain: HybridSource[Source], generation: Generation) -> None:
        self._chain = chain
        self._generation = generation

    def end_of(self, name: str) -> EndPosition | None:
        """Read the end position of a source from the state; None until it has finished.

        Raises:
            StateError: The document is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        return self._generation.read(f"positions/{name}-end.json", EndPosition)

    def ends_before(self, name: str) -> list[EndPosition]:
        """Return the end positions of the finished sources before a source, in reading order.

        Empty for the first source, and as long as none has finished.

        Raises:
            InputError: The chain has no source of this name.
            StateError: A position is damaged.
            UnavailableError: The state's store does not answer.
        """
        earlier = self._chain.sources[: self._chain.index(name)]
        return [end for source in earlier if (end := self.end_of(source.name)) is not None]

    def start_of(self, name: str) -> StartPosition | None:
        """Read the start position of a source from the state; None until its hand-over is made.

        Raises:
            StateError: The document is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        return self._generation.read(f"positions/{name}-start.json", StartPosition)

    def require_turn(self, name: str) -> None:
        """Refuse a source before all bounded sources before it have finished.

        A topic before it belongs to another input, and is followed together with it.

        Raises:
            StateError: An earlier source has not finished; names it. Or a position is damaged.
            InputError: The chain has no source of this name.
            UnavailableError: The state's store does not answer.
        """
        for source in self._chain.sources[: self._chain.index(name)]:
            is_bounded = source.boundedness is Boundedness.BOUNDED
            if is_bounded and self.end_of(source.name) is None:
                message = (
                    f"Source `{name}` can't start: source `{source.name}`, which comes before it, "
                    "has not finished."
                )
                hint = (
                    f"Run the chain with `hybrid run P`, which completes `{source.name}` first, or "
                    f"run `hybrid step P {source.name}`."
                )
                raise StateError(
                    message, hint, generation=self._generation.name, source=source.name
                )

    def require_start(self, name: str) -> StartPosition:
        """Read the start position of a source from the state; refuse a source without one.

        Raises:
            StateError: The hand-over to the source, which decides it, was not made; or the document
                is damaged.
            UnavailableError: The state's store does not answer.
        """
        start = self.start_of(name)
        if start is None:
            message = f"Source `{name}` has no start offsets yet: the hand-over to it decides them."
            hint = f"Run `hybrid step P {name}_handover`, or the whole chain with `hybrid run P`."
            raise StateError(message, hint, generation=self._generation.name, source=name)
        return start

    def finish(self, end: EndPosition) -> EndPosition:
        """Record the end position of a source that has finished.

        Returns:
            The recorded position: if one was recorded before, that one, and ``end`` is dropped.

        Raises:
            StateError: An earlier source has not finished, a position is damaged, or the state
                can't be written.
            InputError: The chain has no source of this name.
            UnavailableError: The state's store does not answer.
        """
        self.require_turn(end.source)
        return self._generation.put_if_absent(f"positions/{end.source}-end.json", end)

    def switch(self, name: str, factory: SourceFactory, log: Log) -> StartPosition:
        """Decide where a source starts: call its factory, unless the position is in the state.

        The position is written to the state before anything can use it. (Flink calls the factory
        again after a failure, with no previous enumerator: FLINK-38345.)

        Args:
            name: Name of the source that is to start.
            factory: Function that decides the position.
            log: Look-ups on the source's topics, which the factory gets.

        Returns:
            The recorded start position; an earlier decision is never replaced.

        Raises:
            StateError: An earlier source has not finished, a position is damaged, or the state
                can't be written.
            InputError: The chain has no source of this name.
            SeamError: The factory returned something that is not a start position of this source.
                Errors that the factory raises are passed on.
            UnavailableError: The state's store does not answer.
        """
        self.require_turn(name)
        if (decided := self.start_of(name)) is not None:
            return decided
        ends = self.ends_before(name)
        start = factory(SourceSwitchContext(ends[-1] if ends else None, log))
        if not isinstance(start, StartPosition) or start.source != name:
            message = (
                f"What was decided for `{name}` is no start of this source: an error of this "
                "package, or of an extension's. Nothing was recorded."
            )
            hint = (
                "Report it. After a correction run the hand-over again: "
                f"`hybrid step P {name}_handover`."
            )
            raise SeamError(message, hint, source=name)
        return self._generation.put_if_absent(f"positions/{name}-start.json", start)

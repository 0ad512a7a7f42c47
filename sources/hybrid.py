"""FLIP-150 at the level of jobs: an ordered chain of sources and the hand-over between them.

https://cwiki.apache.org/confluence/display/FLINK/FLIP-150%3A+Introduce+Hybrid+Source
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from sources.common.positions import EndPosition, StartPosition
from sources.common.state import Generation
from sources.common.topic_log import Log
from sources.errors import InputError, SeamError, StateError


class Boundedness(Enum):
    """Whether a source ends (FLIP-27)."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous_unbounded"


class Source(Protocol):
    """What the chain asks of a source."""

    @property
    def name(self) -> str:
        """Its name, unique in the chain."""

    @property
    def boundedness(self) -> Boundedness:
        """Whether it ends."""


S_co = TypeVar("S_co", bound=Source, covariant=True)
S = TypeVar("S", bound=Source)


class HybridSourceBuilder(Generic[S]):
    """Builds a chain and refuses what Flink's builder refuses, as each source is added."""

    def __init__(self) -> None:
        self._sources: list[S] = []

    def add_source(self, source: S) -> HybridSourceBuilder[S]:
        """Append a source.

        Raises:
            InputError: Another source has its name, or the source before it has no end.

        """
        if any(source.name == other.name for other in self._sources):
            message = f"Two sources are named `{source.name}`."
            raise InputError(message, "State is kept by name: give each its own.")
        if self._sources and self._sources[-1].boundedness is not Boundedness.BOUNDED:
            message = f"Source `{self._sources[-1].name}` has no end but is not the last."
            raise InputError(message, "All sources except the final one need to be bounded.")
        self._sources.append(source)
        return self

    def build(self) -> HybridSource[S]:
        """The chain.

        Raises:
            InputError: It is empty.

        """
        if not self._sources:
            message = "The chain has no sources."
            raise InputError(message, "List at least one under `sources`.")
        return HybridSource(tuple(self._sources))


@dataclass(frozen=True)
class HybridSource(Generic[S_co]):
    """Sources that act as one, read in order; made by :meth:`builder`."""

    sources: tuple[S_co, ...]

    @staticmethod
    def builder() -> HybridSourceBuilder[S]:
        """Start an empty chain."""
        return HybridSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        """That of the last source."""
        return self.sources[-1].boundedness

    def index(self, name: str) -> int:
        """The place of a source in the chain, from 0.

        Raises:
            InputError: There is no such source.

        """
        names = [source.name for source in self.sources]
        if name not in names:
            message = f"There is no source `{name}`."
            raise InputError(message, f"The chain has {', '.join(names)}.")
        return names.index(name)


@dataclass(frozen=True)
class SourceSwitchContext:
    """What a factory may know when it decides where the next source starts.

    Attributes:
        previous: End position of the source before; None if there is no source before. (Flink
            hands over None after a failure, too: FLINK-38345. Here it comes from the state.)
        log: Look-ups on the topics of the source to be started.

    """

    previous: EndPosition | None
    log: Log


SourceFactory = Callable[[SourceSwitchContext], StartPosition]
"""Turns the end of one source into the start of the next.

What it returns at the hand-over is kept and never asked for again. It is asked before, too, for the
plan: it must do nothing but look.
"""


class SwitchState:
    """Decides which source of a generation is due, and makes each hand-over exactly once.

    Its state is the positions in the generation's folder, so it is restored by being built.
    """

    def __init__(self, chain: HybridSource[Source], generation: Generation) -> None:
        self._chain = chain
        self._generation = generation

    def end_of(self, name: str) -> EndPosition | None:
        """The end position of a source, once it has finished."""
        return self._generation.read(f"positions/{name}-end.json", EndPosition)

    def ends_before(self, name: str) -> list[EndPosition]:
        """The end positions of all sources before one that have finished, in order."""
        earlier = self._chain.sources[: self._chain.index(name)]
        return [end for source in earlier if (end := self.end_of(source.name)) is not None]

    def start_of(self, name: str) -> StartPosition | None:
        """The start position of a source, once its hand-over was made."""
        return self._generation.read(f"positions/{name}-start.json", StartPosition)

    def require_turn(self, name: str) -> None:
        """Refuse a source whose predecessors have not all finished.

        Raises:
            StateError: Names the source that has to run first.

        """
        for source in self._chain.sources[: self._chain.index(name)]:
            if self.end_of(source.name) is None:
                message = f"`{name}` can't start: `{source.name}` before it has not finished."
                raise StateError(message, f"Run `{source.name}` first.")

    def require_start(self, name: str) -> StartPosition:
        """The start position of a source.

        Raises:
            StateError: Its hand-over was not made.
        """
        start = self.start_of(name)
        if start is None:
            message = f"Nobody decided where `{name}` starts."
            raise StateError(message, "Make the hand-over first.")
        return start

    def finish(self, end: EndPosition) -> EndPosition:
        """Record the end of a source; a second call returns what the first one wrote."""
        self.require_turn(end.source)
        return self._generation.put_if_absent(f"positions/{end.source}-end.json", end)

    def switch(self, name: str, factory: SourceFactory, log: Log) -> StartPosition:
        """Hand over to a source: run its factory, unless that was done before.

        The position is written before anyone can use it. (Flink runs the factory again after a
        failure, with no previous enumerator: FLINK-38345.)

        Raises:
            StateError: A source before it has not finished.
            SeamError: The factory refused, or returned something that is not a start of this
                source.

        """
        self.require_turn(name)
        if (decided := self.start_of(name)) is not None:
            return decided
        ends = self.ends_before(name)
        start = factory(SourceSwitchContext(ends[-1] if ends else None, log))
        if not isinstance(start, StartPosition) or start.source != name:
            message = f"The factory of `{name}` returned {start!r}."
            raise SeamError(message, f"It must return a StartPosition of source `{name}`.")
        return self._generation.put_if_absent(f"positions/{name}-start.json", start)

"""FLIP-150 at the level of jobs: an ordered chain of sources and the hand-over between them.

https://cwiki.apache.org/confluence/display/FLINK/FLIP-150%3A+Introduce+Hybrid+Source
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

from sources.errors import InputError, SeamError, StateError
from sources.positions import EndPosition, StartPosition
from sources.state import Generation


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


@dataclass(frozen=True)
class HybridSource(Generic[S_co]):
    """Sources that act as one, read in order; build with :meth:`of`."""

    sources: tuple[S_co, ...]

    @classmethod
    def of(cls, sources: Sequence[S_co]) -> HybridSource[S_co]:
        """Check a chain the way Flink's builder does.

        Raises:
            InputError: The chain is empty, two sources share a name, or a source that is not
                the last has no end.

        """
        if not sources:
            message = "The chain has no sources."
            raise InputError(message, "List at least one under `sources`.")
        seen: set[str] = set()
        for source in sources:
            if source.name in seen:
                message = f"Two sources are named `{source.name}`."
                raise InputError(message, "State is kept by name: give each its own.")
            seen.add(source.name)
        for source in sources[:-1]:
            if source.boundedness is not Boundedness.BOUNDED:
                message = f"Source `{source.name}` has no end but is not the last."
                raise InputError(message, "All sources except the final one need to be bounded.")
        return cls(tuple(sources))

    @property
    def boundedness(self) -> Boundedness:
        """That of the last source."""
        return self.sources[-1].boundedness

    def index(self, name: str) -> int:
        """The place of a source in the chain, from 0."""
        return next(place for place, source in enumerate(self.sources) if source.name == name)


@dataclass(frozen=True)
class SourceSwitchContext:
    """What a factory may know when it decides where the next source starts.

    Attributes:
        previous: End position of the source before; None if there is no source before.

    """

    previous: EndPosition | None


SourceFactory = Callable[[SourceSwitchContext], StartPosition]
"""Turns the end of one source into the start of the next; runs once per hand-over."""


class HybridSplitEnumerator:
    """Decides which source of a generation is due, and makes each hand-over exactly once.

    Its state is the positions in the generation's folder, so it is restored by being built.
    """

    def __init__(self, chain: HybridSource[Source], generation: Generation) -> None:
        self._chain = chain
        self._generation = generation

    def end_of(self, name: str) -> EndPosition | None:
        """The end position of a source, once it has finished."""
        return self._generation.read(f"positions/{name}-end.json", EndPosition)

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

    def switch(self, name: str, factory: SourceFactory) -> StartPosition:
        """Hand over to a source: run its factory, unless that was done before.

        The position is written before anyone can use it. (Flink runs the factory again after a
        failure, with no previous enumerator: FLINK-38345.)

        Raises:
            StateError: A source before it has not finished.
            SeamError: The factory returned something that is not a start of this source.

        """
        self.require_turn(name)
        if (decided := self.start_of(name)) is not None:
            return decided
        place = self._chain.index(name)
        previous = self.end_of(self._chain.sources[place - 1].name) if place else None
        start = factory(SourceSwitchContext(previous))
        if not isinstance(start, StartPosition) or start.source != name:
            message = f"The factory of `{name}` returned {start!r}."
            raise SeamError(message, f"It must return a StartPosition of source `{name}`.")
        return self._generation.put_if_absent(f"positions/{name}-start.json", start)

"""FLIP-150 at the level of jobs: an ordered chain of sources, and the switch between them.

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
    """Whether a source has an end (FLIP-27)."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous_unbounded"


class Source(Protocol):
    """What the chain needs to know about a source."""

    @property
    def name(self) -> str:
        """Name, unique in the chain."""

    @property
    def boundedness(self) -> Boundedness:
        """Whether the source has an end."""


S_co = TypeVar("S_co", bound=Source, covariant=True)
S = TypeVar("S", bound=Source)


class HybridSourceBuilder(Generic[S]):
    """Builder of a chain; it refuses what Flink's builder refuses, as each source is added."""

    def __init__(self) -> None:
        self._sources: list[S] = []

    def add_source(self, source: S) -> HybridSourceBuilder[S]:
        """Append a source.

        Raises:
            InputError: Another source has its name, or the source before it has no end.

        """
        if any(source.name == other.name for other in self._sources):
            message = f"Two sources are named `{source.name}`."
            hint = "State is kept by name: give each source a name of its own."
            raise InputError(message, hint, source=source.name)
        if self._sources and self._sources[-1].boundedness is not Boundedness.BOUNDED:
            last = self._sources[-1].name
            message = f"Source `{last}` has no end but is not the last."
            hint = "All sources except the final one need to be bounded."
            raise InputError(message, hint, source=last)
        self._sources.append(source)
        return self

    def build(self) -> HybridSource[S]:
        """Return the chain.

        Raises:
            InputError: It has no sources.

        """
        if not self._sources:
            message = "The chain has no sources."
            raise InputError(message, "List at least one under `sources`.", field="sources")
        return HybridSource(tuple(self._sources))


@dataclass(frozen=True)
class HybridSource(Generic[S_co]):
    """Sources that act as a single one, read in order; built by :meth:`builder`."""

    sources: tuple[S_co, ...]

    @staticmethod
    def builder() -> HybridSourceBuilder[S]:
        """Return a builder of an empty chain."""
        return HybridSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        """Boundedness of the last source."""
        return self.sources[-1].boundedness

    def index(self, name: str) -> int:
        """Return the position of a source in the chain, from 0.

        Raises:
            InputError: The chain has no source of that name.

        """
        names = [source.name for source in self.sources]
        if name not in names:
            message = f"There is no source `{name}`."
            raise InputError(message, f"The chain has {', '.join(names)}.", source=name)
        return names.index(name)


@dataclass(frozen=True)
class SourceSwitchContext:
    """What a factory is given to decide where the next source starts.

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
    """End and start position of each source of a generation; each is written exactly once.

    All state is in the generation's folder, so a new instance continues where another one stopped.
    """

    def __init__(self, chain: HybridSource[Source], generation: Generation) -> None:
        self._chain = chain
        self._generation = generation

    def end_of(self, name: str) -> EndPosition | None:
        """Return the end position of a source; None until it has finished."""
        return self._generation.read(f"positions/{name}-end.json", EndPosition)

    def ends_before(self, name: str) -> list[EndPosition]:
        """Return the end positions of all finished sources before one, in order."""
        earlier = self._chain.sources[: self._chain.index(name)]
        return [end for source in earlier if (end := self.end_of(source.name)) is not None]

    def start_of(self, name: str) -> StartPosition | None:
        """Return the start position of a source; None until its hand-over is made."""
        return self._generation.read(f"positions/{name}-start.json", StartPosition)

    def require_turn(self, name: str) -> None:
        """Refuse a source before all sources before it have finished.

        Raises:
            StateError: An earlier source has not finished; names it.

        """
        for source in self._chain.sources[: self._chain.index(name)]:
            if self.end_of(source.name) is None:
                message = f"`{name}` can't start: `{source.name}` before it has not finished."
                raise StateError(message, f"Run `{source.name}` first.", source=source.name)

    def require_start(self, name: str) -> StartPosition:
        """Return the start position of a source.

        Raises:
            StateError: Its hand-over was not made.
        """
        start = self.start_of(name)
        if start is None:
            message = f"Where `{name}` starts is not decided yet."
            raise StateError(message, f"Run step `{name}_handover` first.", source=name)
        return start

    def finish(self, end: EndPosition) -> EndPosition:
        """Record the end position of a source; a second call returns what the first one wrote."""
        self.require_turn(end.source)
        return self._generation.put_if_absent(f"positions/{end.source}-end.json", end)

    def switch(self, name: str, factory: SourceFactory, log: Log) -> StartPosition:
        """Decide where a source starts: call its factory, unless that was done before.

        The position is written before anything can use it. (Flink calls the factory again after a
        failure, with no previous enumerator: FLINK-38345.)

        Raises:
            StateError: An earlier source has not finished.
            SeamError: The factory refused, or returned something that is not a start position of
                this source.

        """
        self.require_turn(name)
        if (decided := self.start_of(name)) is not None:
            return decided
        ends = self.ends_before(name)
        start = factory(SourceSwitchContext(ends[-1] if ends else None, log))
        if not isinstance(start, StartPosition) or start.source != name:
            message = f"The factory of `{name}` returned {start!r}."
            hint = f"It must return a StartPosition of source `{name}`."
            raise SeamError(message, hint, source=name)
        return self._generation.put_if_absent(f"positions/{name}-start.json", start)

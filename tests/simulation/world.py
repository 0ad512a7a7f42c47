"""What simulated processes share: store, topic, and what goes wrong with requests to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.store import Store
    from tests.simulation.topic import Topic


@dataclass(frozen=True)
class Weather:
    """How often what goes wrong, as a share of requests.

    Attributes:
        refused: A request fails, and has no effect.
        lost: A request has its effect, and its answer is lost.
        repeated: A request whose answer was lost is repeated by the client after a while.
        overtaken: A request fails, and has its effect after those that were sent later.
        slow: A request takes seconds.
    """

    refused: float = 0.0
    lost: float = 0.0
    repeated: float = 0.0
    overtaken: float = 0.0
    slow: float = 0.0


@dataclass
class World:
    """What simulated processes share.

    Attributes:
        store: The documents.
        topic: The records.
        weather: What goes wrong at present.
        replayed: What was read of commits, by the number of their write.
    """

    store: Store
    topic: Topic
    weather: Weather
    replayed: dict[int, Any] = field(default_factory=dict)


_worlds: list[World] = []


def current_world() -> World:
    """Return the world that is simulated at present."""
    return _worlds[-1]


def enter(world: World | None) -> None:
    """Make a world the present one; None for none."""
    _worlds.clear()
    if world is not None:
        _worlds.append(world)

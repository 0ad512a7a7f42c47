"""A store of documents in memory, and its clients, whose requests fail, repeat and overtake.

The store promises what S3 does: each request is one step, a listing is consistent, conditions are
kept. Its client does what the real one does: it may repeat a request whose answer is lost, and
knows its own document by the content.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from sources.errors import UnavailableError
from sources.storage.documents import Document, Listed
from tests.simulation.kernel import MS, Kernel, S, active, in_simulation
from tests.simulation.world import Weather, World, current_world

T = TypeVar("T")
SCHEME = "sim://"
TEMPORARY = "hybrid-simulation-"
"""Beginning of the name of the temporary folder with the input."""
# Its path, and names of files that are made of it, are others each time.
_CHANGING = re.compile(rf"""[^" ]*{TEMPORARY}\w+|\bhistory-[0-9a-f]{{12}}\b""")


@dataclass(frozen=True)
class Kept:
    """A document in the store.

    Attributes:
        data: Its content.
        modified_us: When it was written, by the store's clock.
        number: Number of the write, which no other one has.
    """

    data: bytes
    modified_us: int
    number: int

    @cached_property
    def tag(self) -> str:
        """Version tag: that of S3, which equal contents share."""
        return hashlib.md5(self.data, usedforsecurity=False).hexdigest()


class Store:
    """All documents, and the single steps that change them.

    Args:
        first: Number before that of the first write; those of ``documents`` are followed.
        documents: What it holds at first.

    Attributes:
        documents: Content by path; only this class changes them.
        on_write: Called after each write, with the path.
    """

    def __init__(self, first: int = 0, documents: Mapping[str, Kept] | None = None) -> None:
        self.documents: dict[str, Kept] = dict(documents or {})
        self._listed = {path: _listed(path, each) for path, each in self.documents.items()}
        # Looked through for each listing, which is every fifth request.
        self._paths = sorted(self.documents)
        self.on_write: Callable[[str], None] = lambda _: None
        # No number twice: what was read of a commit is remembered by it.
        self._writes = max((each.number for each in self.documents.values()), default=first)

    def put(self, path: str, data: bytes, now_us: int) -> str:
        """Write a document."""
        self._writes += 1
        if path not in self.documents:
            insort(self._paths, path)
        made = self.documents[path] = Kept(data, now_us, self._writes)
        self._listed[path] = _listed(path, made)
        self.on_write(path)
        return made.tag

    def put_if_absent(self, path: str, data: bytes, now_us: int) -> str | None:
        """Write a document unless it exists; None if it does."""
        return None if path in self.documents else self.put(path, data, now_us)

    def replace(self, path: str, data: bytes, tag: str, now_us: int) -> str | None:
        """Write over a document of a version; None if it has another one, or is gone."""
        there = self.documents.get(path)
        if there is None or there.tag != tag:
            return None
        return self.put(path, data, now_us)

    def delete(self, path: str) -> None:
        """Delete a document."""
        if self.documents.pop(path, None) is not None:
            del self._paths[bisect_left(self._paths, path)], self._listed[path]

    def listing(self, folder: str) -> list[Listed]:
        """Return the documents below a folder, sorted."""
        start = f"{folder.rstrip('/')}/"
        # The next character after the slash ends the paths that begin so.
        end = f"{start[:-1]}{chr(ord('/') + 1)}"
        found = self._paths[bisect_left(self._paths, start) : bisect_left(self._paths, end)]
        return [self._listed[path] for path in found]


def _listed(path: str, kept: Kept) -> Listed:
    return Listed(path, len(kept.data), kept.modified_us // MS)


class SimulatedDocuments:
    """A client of the store in a simulated process; a :class:`DocumentStore`.

    Args:
        knows_own: Whether it looks whose the document is that its conditional write meets.
    """

    deletes_at_once = False
    delta_options = None

    def __init__(self, *, knows_own: bool = True) -> None:
        self._knows_own = knows_own

    def read(self, path: str) -> Document | None:
        kept = self._read("read", path, lambda store: store.documents.get(path))
        return None if kept is None else Document(kept.data, kept.tag, kept.modified_us // MS)

    def exists(self, path: str) -> bool:
        return self._read("exists", path, lambda store: path in store.documents)

    def age_ms(self, path: str) -> int | None:
        kept = self._read("age", path, lambda store: store.documents.get(path))
        return None if kept is None else max((active().now_us - kept.modified_us) // MS, 0)

    def look(self, folder: str) -> None:
        """Ask for a listing whose answer is not needed."""
        self._read("list", folder, lambda _: None)

    def listing(self, folder: str) -> list[Listed]:
        return self._read("list", folder, lambda store: store.listing(folder))

    def folders(self, folder: str) -> list[str]:
        start = len(folder.rstrip("/")) + 1
        found = self._read("folders", folder, lambda store: store.listing(folder))
        names = (each.path[start:] for each in found)
        return sorted({name.partition("/")[0] for name in names if "/" in name})

    def put(self, path: str, data: bytes) -> str:
        tag = self._write("put", path, data, lambda store: store.put(path, data, active().now_us))
        assert tag is not None
        return tag

    def put_if_absent(self, path: str, data: bytes) -> str | None:
        return self._write(
            "put if absent",
            path,
            data,
            lambda store: store.put_if_absent(path, data, active().now_us),
        )

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        return self._write(
            "replace", path, data, lambda store: store.replace(path, data, tag, active().now_us)
        )

    def copy(self, source: str, path: str) -> None:
        found = self.read(source)
        if found is None:
            raise FileNotFoundError(source)
        self.put(path, found.data)

    def delete(self, path: str) -> None:
        self._write("delete", path, None, lambda store: store.delete(path))

    def delete_folder(self, folder: str) -> None:
        for each in self.listing(folder):
            self.delete(each.path)

    # How a request goes.

    def _read(self, what: str, path: str, ask: Callable[[Store], T]) -> T:
        kernel, world = active(), current_world()
        self._travel(kernel, world.weather)
        if kernel.random.random() < world.weather.refused:
            raise _unavailable(path)
        found = ask(world.store)
        kernel.crash_maybe()
        return found

    def _write(
        self, what: str, path: str, data: bytes | None, write: Callable[[Store], str | None]
    ) -> str | None:
        kernel, world = active(), current_world()
        weather = world.weather
        self._travel(kernel, weather)
        chance = kernel.random.random()
        if (chance := chance - weather.refused) < 0:
            kernel.tell(f"{what} {short(path)}: refused")
            raise _unavailable(path)
        if (chance := chance - weather.overtaken) < 0:
            kernel.tell(f"{what} {short(path)}: no answer, still on its way")
            kernel.later(kernel.random.randrange(3 * S), lambda: _arrive(world, what, path, write))
            raise _unavailable(path)
        made = write(world.store)
        kernel.tell(f"{what} {short(path)}{_digest(path, data)}: {outcome(what, made)}")
        if (chance := chance - weather.lost) < 0:
            kernel.tell(f"{what} {short(path)}: its answer is lost")
            raise _unavailable(path)
        if chance - weather.repeated < 0:
            kernel.sleep(kernel.random.randrange(2 * S))
            made = write(world.store)
            kernel.tell(f"{what} {short(path)}: repeated, {outcome(what, made)}")
        kernel.crash_maybe()
        if made is None and data is not None and self._knows_own:
            # A repeated request of one's own meets the document that the first one wrote.
            there = self.read(path)
            return there.tag if there is not None and there.data == data else None
        return made

    def _travel(self, kernel: Kernel, weather: Weather) -> None:
        """Let the request take its time."""
        if not in_simulation():
            return
        us = 1 * MS + int(kernel.random.random() * 40 * MS)
        if kernel.random.random() < weather.slow:
            us = kernel.random.randrange(20 * S)
        kernel.sleep(us)
        kernel.crash_maybe()


def short(path: str) -> str:
    """Return a path, or a text, without what all paths have and what is another one each time."""
    return _without_changing(path.removeprefix(SCHEME))


def _without_changing(text: str) -> str:
    # Most texts have neither, and the pattern tries each of their characters.
    if TEMPORARY not in text and "history-" not in text:
        return text
    return _CHANGING.sub("…", text)


def outcome(what: str, made: str | None) -> str:
    """Return what became of a write, in words."""
    return "done" if made is not None or what == "delete" else "not done: another one is there"


def _arrive(world: World, what: str, path: str, write: Callable[[Store], str | None]) -> None:
    made = write(world.store)
    active().tell(f"{what} {short(path)}, sent before: {outcome(what, made)}")


def _digest(path: str, data: bytes | None) -> str:
    if data is None:
        return ""
    # Actions of a commit have no order.
    lines = sorted(data.splitlines()) if "/_delta_log/" in path else [data]
    lines = [_without_changing(line.decode("latin-1")).encode() for line in lines]
    return f" ({hashlib.sha256(b''.join(lines)).hexdigest()[:8]})"


def _unavailable(path: str) -> UnavailableError:
    message = f"The store of {path} does not answer."
    return UnavailableError(message, "Try again once it answers.", file=path)

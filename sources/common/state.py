"""The state of a pipeline: one folder per generation, the truth about what was decided and done."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from sources.common.positions import Record, now_ms
from sources.errors import InputError, StateError

R = TypeVar("R", bound=Record)
_NEEDED = 64 * 1024  # bytes; below that not even a few small documents can be kept


class GenerationInfo(Record):
    """What a generation was made for.

    Attributes:
        generation: Name of its folder.
        transaction_id: Delta transaction id of all its writes; never shared with another one.
        created_ms: When.
        contract: Digest of each part of the declaration that may not change under a checkpoint.

    """

    VERSION = 2

    generation: str
    transaction_id: str
    created_ms: int
    contract: dict[str, str]


class CurrentGeneration(Record):
    """Which generation of a pipeline is the newest one."""

    generation: str


CURRENT = "current.json"


class Folder:
    """Small documents in a local folder, written whole or not at all."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Where a document lies."""
        return self.root / name

    def read_bytes(self, name: str) -> bytes | None:
        """A document, or None."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None

    def read(self, name: str, kind: type[R]) -> R | None:
        """A versioned document, or None.

        Raises:
            StateError: It is of an unknown version or damaged.

        """
        text = self.read_bytes(name)
        if text is None:
            return None
        return kind.parse(text)

    def replace(self, name: str, document: Record) -> None:
        """Write a document over the one that stands there; readers see one or the other."""
        self.replace_bytes(name, _encoded(document))

    def replace_bytes(self, name: str, data: bytes) -> None:
        """The same with a file of any kind."""
        temporary = self._temporary(name, data)
        temporary.replace(self.path(name))
        self._sync(name)

    def put_if_absent(self, name: str, document: R) -> R:
        """Write a document unless one stands there; of two writers exactly one wins.

        Returns:
            The document that stands: the winner's, for both.

        """
        temporary = self._temporary(name, _encoded(document))
        try:
            # A hard link is refused if the name exists, on every POSIX file system.
            os.link(temporary, self.path(name))
        except FileExistsError:
            standing = self.read(name, type(document))
            assert standing is not None
            return standing
        finally:
            temporary.unlink()
        self._sync(name)
        return document

    def obstacle(self) -> str | None:
        """Why nothing can be written here, as far as that is told without writing; else None."""
        try:
            found = os.statvfs(self.root)
        except OSError as error:
            return f"the state folder {self.root} can't be looked at: {error.strerror}"
        if found.f_flag & os.ST_RDONLY or not os.access(self.root, os.W_OK):
            return f"the state folder {self.root} is read-only"
        if found.f_bavail * found.f_frsize < _NEEDED:
            return f"the disk of the state folder {self.root} is full"
        return None

    def _sync(self, name: str) -> None:
        """Make a name outlive a power cut: the folder holds it, not the file."""
        folder = os.open(self.path(name).parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _temporary(self, name: str, data: bytes) -> Path:
        target = self.path(name)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with self.writing(temporary), temporary.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        return temporary

    @contextlib.contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Write a file of the state, its folder made; what is left of one that fails is removed.

        Raises:
            StateError: It can't be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            # Without the path, which may be of a temporary file.
            what = f"[Errno {error.errno}] {error.strerror}"
            message = f"The state folder {self.root} can't be written: {what}."
            raise StateError(message, "Free space, or make it writable, and run again.") from error


def _encoded(document: Record) -> bytes:
    return document.model_dump_json(indent=2).encode()


class Generation(Folder):
    """One generation of a pipeline: its own plan, positions, checkpoint and transaction id."""

    def __init__(self, root: Path, info: GenerationInfo) -> None:
        super().__init__(root)
        self.info = info

    @property
    def name(self) -> str:
        """Of its folder: g1, g2 …."""
        return self.info.generation

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint, shared by all runs of this generation."""
        return self.root / "checkpoint"


def digests(contract: dict[str, object]) -> dict[str, str]:
    """A short digest of each value, so that no value itself lands in the state."""
    return {
        key: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for key, value in contract.items()
    }


def open_generation(
    home: Path, contract: dict[str, object], named: str | None = None, *, create: bool
) -> Generation | None:
    """A generation of a pipeline; the first is made if there is none and ``create`` is set.

    Args:
        home: The pipeline's folder in the state folder; its name is the pipeline's.
        contract: What of the declaration may not change under a checkpoint.
        named: Which generation; the newest, if left out.
        create: Whether to make the first one.

    Raises:
        StateError: The declaration was changed in a way that the checkpoint can't follow.
        InputError: The state folder is not local.

    """
    if ":/" in str(home):
        message = f"The state folder `{home.parent}` is not on a local file system."
        raise InputError(message, "Name a local folder.")
    folder = Folder(home)
    if named is None:
        current = folder.read(CURRENT, CurrentGeneration)
        if current is None:
            if not create:
                return None
            made = make_generation(home, "g1", contract)
            # Of two that made it, both go on with the one that stands.
            current = folder.put_if_absent(CURRENT, CurrentGeneration(generation=made.name))
        named = current.generation
    found = read_generation(home, named)
    wanted = digests(contract)
    keys = sorted({*wanted, *found.info.contract})
    changed = [key for key in keys if found.info.contract.get(key) != wanted.get(key)]
    if changed:
        message = (
            f"`{', '.join(changed)}` of pipeline `{home.name}` changed since generation "
            f"{named} began; its checkpoint can't follow."
        )
        hint = "Undo the change, or begin a new generation: `hybrid generation new`."
        raise StateError(message, hint)
    return found


def make_generation(home: Path, name: str, contract: dict[str, object]) -> Generation:
    """Make a generation of this name, unless there is one; of two that do, one wins."""
    info = GenerationInfo(
        generation=name,
        transaction_id=f"{home.name}-{uuid.uuid4().hex}",
        created_ms=now_ms(),
        contract=digests(contract),
    )
    root = home / name
    return Generation(root, Folder(root).put_if_absent("generation.json", info))


def read_generation(home: Path, name: str) -> Generation:
    """A generation that is there.

    Raises:
        StateError: It is not.
    """
    folder = Folder(home / name)
    found = folder.read("generation.json", GenerationInfo)
    if found is None:
        message = f"{folder.path('generation.json')} is missing."
        raise StateError(message, "Restore it, or start over with an empty state folder.")
    return Generation(folder.root, found)

"""State of a pipeline: one folder per generation, the record of what was decided and done."""

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
_MIN_FREE = 64 * 1024  # bytes; below that not even a few small documents can be written


class GenerationInfo(Record):
    """Identity of a generation, written when it is created.

    Attributes:
        generation: Name of its folder.
        transaction_id: Delta transaction id of all its writes; unique to it.
        created_ms: Time of creation.
        contract: Digest of each part of the declaration that may not change under a checkpoint.

    """

    VERSION = 2

    generation: str
    transaction_id: str
    created_ms: int
    contract: dict[str, str]


class CurrentGeneration(Record):
    """Name of the newest generation of a pipeline."""

    generation: str


CURRENT = "current.json"


class Folder:
    """Local folder of small documents, each written atomically."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Return the path of a document."""
        return self.root / name

    def read_bytes(self, name: str) -> bytes | None:
        """Return the bytes of a document, or None if it does not exist."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None

    def read(self, name: str, kind: type[R]) -> R | None:
        """Return a versioned document, or None if it does not exist.

        Raises:
            StateError: The document has an unknown version or is damaged.

        """
        text = self.read_bytes(name)
        if text is None:
            return None
        return kind.parse(text)

    def replace(self, name: str, document: Record) -> None:
        """Write a document over an existing one; a reader sees all of the old or of the new one."""
        self.replace_bytes(name, _encoded(document))

    def replace_bytes(self, name: str, data: bytes) -> None:
        """Write a file over an existing one; a reader sees all of the old or of the new one."""
        temporary = self._temporary(name, data)
        temporary.replace(self.path(name))
        self._sync(name)

    def put_if_absent(self, name: str, document: R) -> R:
        """Write a document unless it exists; of two concurrent writers exactly one wins.

        Returns:
            The document that is there now: for both writers, the winner's.

        Raises:
            StateError: It can't be written, or it was removed again while this was called.
        """
        temporary = self._temporary(name, _encoded(document))
        try:
            # A hard link is refused if the name exists, on every POSIX file system.
            os.link(temporary, self.path(name))
        except FileExistsError:
            if (existing := self.read(name, type(document))) is None:
                message = f"{self.path(name)} was removed while it was being written."
                hint = "Leave the files of a running pipeline in place; run this step again."
                raise StateError(message, hint, file=str(self.path(name))) from None
            return existing
        finally:
            temporary.unlink()
        self._sync(name)
        return document

    def obstacle(self) -> str | None:
        """Return why nothing can be written here, if that shows without writing; else None."""
        try:
            found = os.statvfs(self.root)
        except OSError as error:
            return f"the state folder {self.root} can't be accessed: {error.strerror}"
        if found.f_flag & os.ST_RDONLY or not os.access(self.root, os.W_OK):
            return f"the state folder {self.root} is read-only"
        if found.f_bavail * found.f_frsize < _MIN_FREE:
            return f"the disk of the state folder {self.root} is full"
        return None

    def _sync(self, name: str) -> None:
        """Make a file's name survive a power failure: it is kept in the folder, not in the file."""
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
        """Create the folder of a file that the body writes; remove the file if the body fails.

        Raises:
            StateError: The file can't be written.
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
            hint = "Free space, or make it writable, and run again."
            raise StateError(message, hint, file=str(self.root)) from error


def _encoded(document: Record) -> bytes:
    return document.model_dump_json(indent=2).encode()


class Generation(Folder):
    """One generation of a pipeline: its plan, positions, checkpoint and transaction id."""

    def __init__(self, root: Path, info: GenerationInfo) -> None:
        super().__init__(root)
        self.info = info

    @property
    def name(self) -> str:
        """Name of its folder: g1, g2 …."""
        return self.info.generation

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint, shared by all runs of this generation."""
        return self.root / "checkpoint"


def digests(contract: dict[str, object]) -> dict[str, str]:
    """Return a short digest of each value, so that no value itself is written to the state."""
    return {
        key: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for key, value in contract.items()
    }


def open_generation(
    home: Path, contract: dict[str, object], named: str | None = None, *, create: bool
) -> Generation | None:
    """Return a generation of a pipeline; create the first one if ``create`` is set.

    Args:
        home: The pipeline's folder in the state folder; its name is the pipeline's.
        contract: The parts of the declaration that may not change under a checkpoint.
        named: Name of the generation; the newest, if left out.
        create: Whether to create the first generation if there is none.

    Returns:
        The generation; None if there is none and none was to be created.

    Raises:
        StateError: The declaration was changed in a way that the checkpoint can't follow.
        InputError: The state folder is not local.

    """
    if ":/" in str(home):
        message = f"The state folder `{home.parent}` is not on a local file system."
        raise InputError(message, "Name a local folder.", field="state", value=str(home.parent))
    folder = Folder(home)
    if named is None:
        current = folder.read(CURRENT, CurrentGeneration)
        if current is None:
            if not create:
                return None
            made = make_generation(home, "g1", contract)
            # Of two processes that created it, both continue with the one that was written.
            current = folder.put_if_absent(CURRENT, CurrentGeneration(generation=made.name))
        named = current.generation
    found = read_generation(home, named)
    declared = digests(contract)
    keys = sorted({*declared, *found.info.contract})
    changed = [key for key in keys if found.info.contract.get(key) != declared.get(key)]
    if changed:
        message = (
            f"`{', '.join(changed)}` of pipeline `{home.name}` changed since generation "
            f"{named} began; its checkpoint can't follow the change."
        )
        hint = "Undo the change, or begin a new generation: `hybrid generation new`."
        raise StateError(message, hint, pipeline=home.name, generation=named, field=changed[0])
    return found


def make_generation(home: Path, name: str, contract: dict[str, object]) -> Generation:
    """Create a generation, or return the existing one of that name; of two callers one wins."""
    info = GenerationInfo(
        generation=name,
        transaction_id=f"{home.name}-{uuid.uuid4().hex}",
        created_ms=now_ms(),
        contract=digests(contract),
    )
    root = home / name
    return Generation(root, Folder(root).put_if_absent("generation.json", info))


def read_generation(home: Path, name: str) -> Generation:
    """Return an existing generation.

    Raises:
        StateError: There is none of that name.
    """
    folder = Folder(home / name)
    found = folder.read("generation.json", GenerationInfo)
    if found is None:
        message = f"{folder.path('generation.json')} is missing."
        hint = "Restore it, or start over with an empty state folder."
        raise StateError(message, hint, file=str(folder.path("generation.json")), generation=name)
    return Generation(folder.root, found)

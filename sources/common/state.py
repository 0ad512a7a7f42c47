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
    """Identity of a generation (one computation of the whole table), written when it is created.

    Attributes:
        generation: Name of the generation and of its folder, such as ``g1``.
        transaction_id: Application id of its transactions in the Delta log; unique to it, so that
            a micro-batch is never written twice.
        created_ms: Time of creation, in Unix milliseconds.
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
    """Local folder of small files of the state, each written atomically and synced to disk.

    A reader sees all of the old content of a file or all of the new one. Methods that write raise
    StateError if the folder can't be written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Return the path of a file of the folder, whether it exists or not."""
        return self.root / name

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a file of the folder; None if it does not exist.

        Raises:
            OSError: The file exists and can't be read.
        """
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None

    def read(self, name: str, kind: type[R]) -> R | None:
        """Return a versioned document; None if it does not exist.

        Args:
            name: Path of its file, relative to the folder.
            kind: Type of the document.

        Raises:
            StateError: The document has an unknown version or is damaged.
            OSError: The file exists and can't be read.

        """
        text = self.read_bytes(name)
        if text is None:
            return None
        return kind.parse(text)

    def replace(self, name: str, document: Record) -> None:
        """Write a document, over an existing one if there is one, in one atomic step.

        Raises:
            StateError: The folder can't be written.
        """
        self.replace_bytes(name, _encoded(document))

    def replace_bytes(self, name: str, data: bytes) -> None:
        """Write a file, over an existing one if there is one, in one atomic step.

        Raises:
            StateError: The folder can't be written.
        """
        temporary = self._temporary(name, data)
        temporary.replace(self.path(name))
        self._sync(name)

    def put_if_absent(self, name: str, document: R) -> R:
        """Write a document unless it exists; of two concurrent writers exactly one wins.

        Returns:
            The document that is there now: for both writers, the winner's.

        Raises:
            StateError: The folder can't be written, the existing document is damaged, or it was
                removed while this was called.
        """
        temporary = self._temporary(name, _encoded(document))
        try:
            # A hard link is refused if the name exists, on every POSIX file system.
            os.link(temporary, self.path(name))
        except FileExistsError:
            if (existing := self.read(name, type(document))) is None:
                message = f"State file {self.path(name)} was removed while it was being written."
                hint = "Run the same command again, and don't remove files of a running pipeline."
                raise StateError(message, hint, file=str(self.path(name))) from None
            return existing
        finally:
            temporary.unlink()
        self._sync(name)
        return document

    def obstacle(self) -> str | None:
        """Return why nothing can be written to this folder, if that shows without writing.

        Returns:
            A phrase such as "the disk of the state folder /state is full"; None if nothing speaks
            against it: the folder is accessible, writable, and has 64 KiB free.
        """
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
        """Create the folder of a file that the body of ``with`` writes.

        If the body raises an OSError, the file is removed.

        Args:
            path: The file.

        Yields:
            Nothing: the body writes the file.

        Raises:
            StateError: The folder can't be created, or the body raised an OSError.
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
            hint = (
                "Free space on its disk, or make the folder writable, then run the same command "
                "again: completed steps are skipped."
            )
            raise StateError(message, hint, file=str(self.root)) from error


def _encoded(document: Record) -> bytes:
    return document.model_dump_json(indent=2).encode()


class Generation(Folder):
    """State folder of one generation, which is one computation of the whole target table.

    Holds the plan, the positions of the sources, Spark's checkpoint and the transaction id.
    """

    def __init__(self, root: Path, info: GenerationInfo) -> None:
        super().__init__(root)
        self.info = info

    @property
    def name(self) -> str:
        """Name of the generation and of its folder: g1, g2 …."""
        return self.info.generation

    @property
    def checkpoint(self) -> Path:
        """Path of Spark's checkpoint, shared by all runs of this generation; may not exist yet."""
        return self.root / "checkpoint"


def digests(contract: dict[str, object]) -> dict[str, str]:
    """Return a digest (16 hex digits of SHA-256) of each value, by the same keys.

    The state keeps digests only, so that no value of the declaration itself is written to it.
    """
    return {
        key: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for key, value in contract.items()
    }


def open_generation(
    home: Path, contract: dict[str, object], named: str | None = None, *, create: bool
) -> Generation | None:
    """Return a generation of a pipeline, after checking that its checkpoint can still be used.

    A generation is one computation of the whole target table, with a checkpoint of its own.

    Args:
        home: The pipeline's folder in the state folder; its name is the pipeline's.
        contract: The parts of the declaration that may not change under a checkpoint.
        named: Name of the generation; the newest, if left out.
        create: Whether to create the first generation, ``g1``, if there is none.

    Returns:
        The generation; None if there is none and none was to be created.

    Raises:
        StateError: A part of ``contract`` differs from the one the generation began with; the
            generation does not exist; or the state is damaged or can't be written.
        InputError: The state folder is a URL, not a local folder.

    """
    if ":/" in str(home):
        message = (
            f"`state: {home.parent}` is a URL; the state folder must be on a file system that is "
            "mounted on this machine, as its files are written atomically."
        )
        hint = "Declare a local folder, such as `state: state`."
        raise InputError(message, hint, field="state", value=str(home.parent))
    folder = Folder(home)
    if named is None:
        current = folder.read(CURRENT, CurrentGeneration)
        if current is None:
            _require_never_run(folder)
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
        hint = (
            "Undo the change in the pipeline's file. If nothing was read yet, plan again instead: "
            "`hybrid plan P`; otherwise begin a new generation, `hybrid generation new P`, which "
            "computes the whole table again next to the one that serves."
        )
        raise StateError(message, hint, pipeline=home.name, generation=named, field=changed[0])
    return found


def _require_never_run(folder: Folder) -> None:
    """Refuse a pipeline whose ``current.json`` is missing although a generation has run."""
    ran = sorted(path.parent.name for path in folder.root.glob("g*/checkpoint"))
    if not ran:
        return
    message = (
        f"State file {folder.path(CURRENT)} is missing, although generation {', '.join(ran)} of "
        f"pipeline `{folder.root.name}` has run. Which one is the newest is unknown, and nothing "
        "was begun in its place."
    )
    hint = (
        "Restore the file from a backup, or write it with the newest generation: "
        f'`{{"version": {CurrentGeneration.VERSION}, "generation": "{ran[-1]}"}}`.'
    )
    raise StateError(message, hint, pipeline=folder.root.name, file=str(folder.path(CURRENT)))


def make_generation(home: Path, name: str, contract: dict[str, object]) -> Generation:
    """Create the state folder of a generation, or return the existing one of that name.

    Of two concurrent callers one creates it, and both get that one.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation, such as ``g2``.
        contract: The parts of the declaration that may not change under its checkpoint.

    Raises:
        StateError: The state can't be written.
    """
    info = GenerationInfo(
        generation=name,
        transaction_id=f"{home.name}-{uuid.uuid4().hex}",
        created_ms=now_ms(),
        contract=digests(contract),
    )
    root = home / name
    return Generation(root, Folder(root).put_if_absent("generation.json", info))


def read_generation(home: Path, name: str) -> Generation:
    """Return an existing generation by its name.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation, such as ``g2``.

    Raises:
        StateError: There is no generation of that name, or its document is damaged.
    """
    folder = Folder(home / name)
    found = folder.read("generation.json", GenerationInfo)
    if found is None:
        message = (
            f"State file {folder.path('generation.json')} of generation {name} is missing, so its "
            "checkpoint can't be matched with its table."
        )
        hint = (
            "Restore the file from a backup. Without one, declare another `state` and another "
            "`sink.path`, and load everything again."
        )
        raise StateError(
            message,
            hint,
            pipeline=home.name,
            generation=name,
            file=str(folder.path("generation.json")),
        )
    return Generation(folder.root, found)

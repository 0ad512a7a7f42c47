"""State of generations: their folders, the newest one, and refusal of a changed declaration."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.errors import StateError
from sources.storage.folder import Folder


class GenerationInfo(Record):
    """Identity of a generation (one computation of the whole table), written when it is created.

    Attributes:
        generation: Name of the generation and of its folder, such as ``g1``.
        transaction_id: Application id (``txn.appId``) of its transactions in the Delta log; unique
            to it, so that a micro-batch is never written twice.
        created_ms: Time of creation, in Unix milliseconds.
        contract: Digest of each part of the declaration that may not change under its checkpoint,
            by the name of the part.
    """

    VERSION = 2

    generation: str
    transaction_id: str
    created_ms: int
    contract: dict[str, str]


class CurrentGeneration(Record):
    """Record of the name of a pipeline's newest generation; it may differ from the serving one.

    Attributes:
        generation: Its name.
        last: Name of the one that was begun last, if it was discarded since. Its name is not used
            again: a process that slept while it removed it may wake up at any time.
    """

    generation: str
    last: str | None = None


CURRENT = "current.json"
"""Name of the document that says which generation is the newest, in the pipeline's state."""
IDENTITY = "generation.json"
"""Name of the document that a generation's folder begins with."""
PLAN = "plan.json"
"""Name of the document with the plan, in a generation's folder."""
_REMOVED = "removed.json"


class Generation(Folder):
    """State folder of one generation, which is one computation of the whole target table.

    Holds the plan, the positions of the sources, Spark's checkpoint and the transaction id.
    """

    def __init__(self, folder: Folder, info: GenerationInfo) -> None:
        super().__init__(folder.url, folder.documents)
        self.info = info

    @property
    def name(self) -> str:
        """Name of the generation and of its folder: g1, g2 …."""
        return self.info.generation

    @property
    def checkpoint(self) -> Folder:
        """Folder of Spark's checkpoint, which all runs of this generation share; may be missing."""
        return self.folder("checkpoint")


class Ways(NamedTuple):
    """A value of the declaration in all of its equivalent spellings, such as a path.

    If any of them has the kept digest, the value counts as unchanged.

    Attributes:
        values: The spellings; the first one is as it is declared.
    """

    values: Sequence[object]


def digests(contract: Mapping[str, object]) -> dict[str, str]:
    """Return a digest (16 hex digits of SHA-256) of each value, by the same keys.

    The state keeps digests only, so that no value of the declaration itself is written to it.
    """
    return {key: _digest(_ways(value)[0]) for key, value in contract.items()}


def changed_parts(kept: Mapping[str, str], contract: Mapping[str, object]) -> list[str]:
    """Return the keys of a contract whose values differ from the kept digests, sorted.

    A key that only one of the two has counts as changed. Empty if nothing has changed.

    Args:
        kept: Digests by key, as of :func:`digests`.
        contract: Values by key, as they are declared now.
    """
    return [
        key
        for key in sorted({*contract, *kept})
        if key not in contract or kept.get(key) not in list(map(_digest, _ways(contract[key])))
    ]


def _ways(value: object) -> Sequence[object]:
    return value.values if isinstance(value, Ways) else [value]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def open_generation(
    home: Folder, contract: dict[str, object], named: str | None = None, *, create: bool
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
        UnavailableError: The state's store does not answer.

    """
    if named is None:
        current = home.read(CURRENT, CurrentGeneration)
        if current is None:
            _require_never_run(home)
            if not create:
                return None
            made = make_generation(home, "g1", contract)
            # Of two processes that created it, both continue with the one that was written.
            current = home.put_if_absent(CURRENT, CurrentGeneration(generation=made.name))
        named = current.generation
    found = read_generation(home, named)
    if changed := changed_parts(found.info.contract, contract):
        message = (
            f"`{'`, `'.join(changed)}` of pipeline `{home.name}` changed since generation "
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
    folders = {name.partition("/")[0] for name in folder.names("g*/checkpoint/*")}
    ran = sorted(folders, key=lambda name: (len(name), name))
    if not ran:
        return
    message = (
        f"State file {folder.location(CURRENT)} is missing, although pipeline `{folder.name}` has "
        f"run (generation {', '.join(ran)}). Which one is the newest is unknown, and nothing was "
        "begun in its place."
    )
    hint = (
        "Restore the file from a backup, or write it with the newest generation: "
        f'`{{"version": {CurrentGeneration.VERSION}, "generation": "{ran[-1]}"}}`.'
    )
    raise StateError(message, hint, pipeline=folder.name, file=folder.location(CURRENT))


def make_generation(home: Folder, name: str, contract: dict[str, object]) -> Generation:
    """Create the state folder of a generation, or return the existing one of that name.

    Of two concurrent callers one creates it, and both get that one. An existing one keeps the
    digests that it began with.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation, such as ``g2``.
        contract: The parts of the declaration that may not change under its checkpoint.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    if home.exists(f"{name}/{_REMOVED}"):
        remove_generation(home, name)
    info = GenerationInfo(
        generation=name,
        transaction_id=f"{home.name}-{uuid.uuid4().hex}",
        created_ms=now_ms(),
        contract=digests(contract),
    )
    folder = home.folder(name)
    return Generation(folder, folder.put_if_absent(IDENTITY, info))


def mark_removed(home: Folder, name: str) -> None:
    """Mark a generation as one that is being removed: what is left of it counts as gone.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    home.replace_bytes(f"{name}/{_REMOVED}", b"{}")


def unmark_removed(home: Folder, name: str) -> None:
    """Take back the mark of :func:`mark_removed`; nothing happens if there is none.

    Nothing of the generation may have been removed yet.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    home.delete(f"{name}/{_REMOVED}")


def remove_generation(
    home: Folder,
    name: str,
    keep: Sequence[str] = (),
    require: Callable[[], None] = lambda: None,
) -> None:
    """Remove the state folder of a generation; one that a crash left half removed counts as gone.

    Nothing happens if there is none.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation; its runs must have ended.
        keep: Names of files in it that stay, where files are deleted one by one.
        require: Called before each of these is deleted; what it raises ends the removal.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    folder = home.folder(name)
    if folder.documents.deletes_at_once:
        folder.delete_all()
        return
    require()
    mark_removed(home, name)
    others = [each for each in folder.names("*") if each not in (_REMOVED, IDENTITY, *keep)]
    for each in (*others, IDENTITY, _REMOVED):
        require()
        folder.delete(each)


def is_there(home: Folder, name: str) -> bool:
    """Return whether a generation exists; one that a crash left half removed does not.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation, such as ``g2``.

    Raises:
        UnavailableError: The state's store does not answer.
    """
    return home.exists(f"{name}/{IDENTITY}") and not home.exists(f"{name}/{_REMOVED}")


def read_generation(home: Folder, name: str) -> Generation:
    """Return an existing generation by its name.

    Args:
        home: The pipeline's folder in the state folder.
        name: Name of the generation, such as ``g2``.

    Raises:
        StateError: There is no generation of that name, or its document is damaged or of another
            generation.
        UnavailableError: The state's store does not answer.
    """
    folder = home.folder(name)
    found = folder.read(IDENTITY, GenerationInfo)
    if found is None:
        message = (
            f"State file {folder.location(IDENTITY)} of generation {name} is missing, so its "
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
            file=folder.location(IDENTITY),
        )
    if found.generation != name:
        message = (
            f"State file {folder.location(IDENTITY)} is of generation {found.generation}, not of "
            f"{name}: the folder was copied or restored under another name. Two generations with "
            "one transaction id would take each other's micro-batches for written."
        )
        hint = f"Restore the folder {folder} of {name} from a backup, or remove it."
        raise StateError(
            message,
            hint,
            pipeline=home.name,
            generation=name,
            file=folder.location(IDENTITY),
        )
    return Generation(folder, found)

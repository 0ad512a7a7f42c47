"""One version of a Delta table, read from its log: protocol, metadata, and file actions.

The log is replayed by Delta's Rust library, which writes the result as a checkpoint of a copy of
the log; the actions in it are exactly those of the table
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#checkpoints).
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from hybrid_extensions.generations.files.retention import in_plain_form
from hybrid_extensions.generations.files.table_protocol import Protocol
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import LOG, is_absolute
from spark_jobs.table.delta_table import open_table

_KINDS = ("protocol", "metaData", "add", "remove", "domainMetadata")
_NUMBERED = re.compile(r"(\d{20})\.")
# Alphabets of base 85: of Delta (Z85, ZeroMQ RFC 32) and of Python (RFC 1924).
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_UUID_LENGTH = 20  # characters of a UUID in base 85


@dataclass(frozen=True)
class TableSnapshot:
    """One version of a Delta table, with the log's actions unchanged, unknown fields included.

    Attributes:
        folder: The table's folder.
        version: Number of the version.
        protocol: Versions and features that readers and writers need.
        metadata: The ``metaData`` action.
        files: The ``add`` action of each file, deletion vector included.
        removed: The ``remove`` action of each file that was removed from the table within
            ``delta.deletedFileRetentionDuration``.
        domains: Configuration of each metadata domain that is not removed, as text.
    """

    folder: Folder
    version: int
    protocol: Protocol
    metadata: dict[str, Any]
    files: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    domains: dict[str, str]

    @property
    def partitions(self) -> list[str]:
        """Names of the partition columns, in order; empty for a table without partitions."""
        return list(self.metadata["partitionColumns"])

    @property
    def configuration(self) -> dict[str, str]:
        """Properties of the table by name, such as ``delta.appendOnly``."""
        return dict(self.metadata["configuration"])


def read_snapshot(folder: Folder, version: int | None = None) -> TableSnapshot:
    """Read one version of a Delta table from its log; nothing is written to the table.

    Args:
        folder: The table's folder.
        version: Number of the version; None for the newest.

    Raises:
        InputError: The table can't be read at that version.
        UnavailableError: The table's store does not answer.
    """
    number = int(open_table(folder, version).version())
    of = _actions(folder, number)
    metadata = _known(of["metaData"][0])
    if (plain := in_plain_form(metadata["configuration"])) is not None:
        # Delta's Rust library would forget the removed files after a week.
        of["remove"] = _actions(folder, number, {**metadata, "configuration": plain})["remove"]
    return TableSnapshot(
        folder=folder,
        version=number,
        protocol=Protocol.of(of["protocol"][0]),
        metadata=metadata,
        files=[_known(each) for each in of["add"]],
        removed=[_known(each) for each in of["remove"]],
        domains={
            each["domain"]: each["configuration"]
            for each in of["domainMetadata"]
            if not each["removed"]
        },
    )


def data_files(add: dict[str, Any]) -> list[str]:
    """Return the files of a log action: the data file, and that of its deletion vector, if any.

    Args:
        add: The ``add`` or ``remove`` action.

    Returns:
        Paths as they are on disk: relative to the table's folder, or absolute, as in the log.
    """
    names = [unquote(add["path"])]
    vector = add.get("deletionVector")
    if vector is not None and vector["storageType"] == "u":
        prefix, encoded = _split_vector(vector["pathOrInlineDv"])
        made = uuid.UUID(bytes=base64.b85decode(encoded.translate(str.maketrans(_Z85, _B85))))
        names.append(f"{prefix}/deletion_vector_{made}.bin".lstrip("/"))
    elif vector is not None and vector["storageType"] == "p":
        names.append(unquote(vector["pathOrInlineDv"]))
    return names


def with_paths_below(folder: str, add: dict[str, Any]) -> dict[str, Any]:
    """Return an ``add`` action of a table for the log of another table whose folder is around it.

    Args:
        folder: Path of the table's folder relative to that of the table around it, of characters
            that a URI has as they are.
        add: The action; absolute paths in it stay.
    """
    made = dict(add)
    if not is_absolute(unquote(add["path"])):
        made["path"] = f"{folder}/{add['path']}"
    vector = add.get("deletionVector")
    if vector is not None and vector["storageType"] == "u":
        prefix, encoded = _split_vector(vector["pathOrInlineDv"])
        place = f"{folder}/{prefix}".rstrip("/")
        made["deletionVector"] = {**vector, "pathOrInlineDv": f"{place}{encoded}"}
    return made


def identity(add: dict[str, Any]) -> tuple[Any, ...]:
    """Return a value that tells whether two ``add`` actions are of the same rows.

    It is made of path and deletion vector; equal values mean equal rows.
    """
    vector = add.get("deletionVector") or {}
    return (
        add["path"],
        *(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset")),
    )


def _actions(
    folder: Folder, version: int, metadata: dict[str, Any] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return the actions of a version by kind; with other metadata, if it is given."""
    with tempfile.TemporaryDirectory(prefix="hybrid-log-") as scratch:
        log = Path(scratch) / LOG
        _copy_log(folder.folder(LOG), log, version)
        if metadata is not None:
            version += 1
            (log / f"{version:020d}.json").write_text(json.dumps({"metaData": metadata}))
        open_table(Folder(scratch), version).create_checkpoint()
        checkpoint = pq.ParquetFile(log / f"{version:020d}.checkpoint.parquet")
        kinds = [each for each in _KINDS if each in checkpoint.schema_arrow.names]
        actions = checkpoint.read(columns=kinds).to_pylist(maps_as_pydicts="strict")
    return {kind: [each[kind] for each in actions if each.get(kind) is not None] for kind in _KINDS}


def _split_vector(path: str) -> tuple[str, str]:
    """Split the path of a deletion vector's file: a folder, which may be empty, and its UUID."""
    return path[:-_UUID_LENGTH], path[-_UUID_LENGTH:]


def _copy_log(log: Folder, copy: Path, version: int) -> None:
    """Copy what the log of a version is made of: its last checkpoint and the commits after it."""
    names = log.names("*")
    numbered = [(int(found[1]), name) for name in names if (found := _NUMBERED.match(name))]
    begin = max(
        (number for number, name in numbered if ".checkpoint." in name and number <= version),
        default=0,
    )
    copy.mkdir()
    wanted = [
        name
        for number, name in numbered
        if begin <= number <= version and ".compacted." not in name
    ]
    for name in [*wanted, *(name for name in names if name.startswith("_sidecars/"))]:
        data = log.read_bytes(name)
        if data is None:
            continue
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(data)


def _known(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action without the fields that it does not have; they are null in a checkpoint."""
    return {
        name: _known(value) if isinstance(value, dict) and name == "deletionVector" else value
        for name, value in action.items()
        if value is not None
    }

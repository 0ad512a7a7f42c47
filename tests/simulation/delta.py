"""A model of delta-rs on the simulated store: the log's rules, without files of its own.

A commit is put if its version is absent; if it is not, what the others committed decides whether it
may be the next version: https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from hybrid_extensions.generations.files.table_protocol import Protocol
from hybrid_extensions.generations.files.table_snapshot import TableSnapshot
from sources.errors import UnavailableError
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import LOG, commit_name
from spark_jobs.table.delta_table import open_table
from tests.simulation.kernel import MS, active
from tests.simulation.store import SimulatedDocuments
from tests.simulation.world import current_world

_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_RETRIES = 15


class Version:
    """One version of a table: what all commits up to it say together."""

    def __init__(self, before: Version | None, number: int, data: bytes) -> None:
        self.number = number
        self.actions = [json.loads(line) for line in data.splitlines() if line.strip()]
        self.transactions: dict[str, int] = {} if before is None else dict(before.transactions)
        self.files: dict[str, dict[str, Any]] = {} if before is None else dict(before.files)
        self.removed: list[dict[str, Any]] = [] if before is None else list(before.removed)
        self.metadata: dict[str, Any] = {} if before is None else before.metadata
        self.protocol: dict[str, Any] = {} if before is None else before.protocol
        self.before = before
        for action in self.actions:
            for kind, value in action.items():
                self._apply(kind, value)

    def _apply(self, kind: str, value: dict[str, Any]) -> None:
        if kind == "txn":
            self.transactions[value["appId"]] = int(value["version"])
        elif kind == "add":
            self.files[value["path"]] = value
        elif kind == "remove":
            self.files.pop(value["path"], None)
            self.removed.append(value)
        elif kind == "metaData":
            self.metadata = value
        elif kind == "protocol":
            self.protocol = value

    @property
    def own_transactions(self) -> dict[str, int]:
        """Transactions of this version's commit alone."""
        found = (action["txn"] for action in self.actions if "txn" in action)
        return {each["appId"]: int(each["version"]) for each in found}

    @property
    def info(self) -> dict[str, Any]:
        """What the commit says of itself."""
        return next((each["commitInfo"] for each in self.actions if "commitInfo" in each), {})


def versions_of(table: str) -> list[Version]:
    """Return all versions of a table, from its first one; empty if there is none."""
    world = current_world()
    found: list[Version] = []
    before: Version | None = None
    while (kept := world.store.documents.get(f"{table}/{commit_name(len(found))}")) is not None:
        known = world.replayed.get(kept.number)
        if known is None or known.before is not before:
            known = world.replayed[kept.number] = Version(before, len(found), kept.data)
        found.append(known)
        before = known
    return found


class SimulatedTable:
    """What the product uses of :class:`deltalake.DeltaTable`, on the simulated store."""

    def __init__(
        self, table_uri: str, version: int | None = None, storage_options: object = None
    ) -> None:
        self._url = str(table_uri).rstrip("/")
        versions = _ask(self._url)
        if not versions or (version is not None and version >= len(versions)):
            raise TableNotFoundError(f"no table at {self._url}, version {version}")
        self._version = versions[-1] if version is None else versions[version]

    @staticmethod
    def is_deltatable(table_uri: str, storage_options: object = None) -> bool:
        return bool(_ask(str(table_uri).rstrip("/")))

    @classmethod
    def create(
        cls,
        table_uri: str,
        schema: Schema,
        *,
        mode: str = "error",
        partition_by: Sequence[str] | None = None,
        configuration: Mapping[str, str] | None = None,
        storage_options: object = None,
        commit_properties: CommitProperties | None = None,
        **_: object,
    ) -> Self:
        url = str(table_uri).rstrip("/")
        if _ask(url):
            assert mode == "ignore"
            return cls(url)
        made = {
            "id": f"{active().random.getrandbits(128):032x}",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.to_json(),
            "partitionColumns": list(partition_by or []),
            "configuration": dict(configuration or {}),
            "createdTime": active().now_us // MS,
        }
        actions = [{"protocol": _PROTOCOL}, {"metaData": made}]
        if not _put(
            url, 0, [_info("CREATE TABLE", commit_properties), *actions, *_txns(commit_properties)]
        ):
            raise CommitFailedError(f"version 0 of {url} is there already")
        return cls(url)

    def version(self) -> int:
        return self._version.number

    def transaction_version(self, app_id: str) -> int | None:
        return self._version.transactions.get(app_id)

    def metadata(self) -> Any:
        known = self._version.metadata
        return SimpleNamespace(
            id=known["id"],
            configuration=dict(known["configuration"]),
            partition_columns=list(known["partitionColumns"]),
        )

    def schema(self) -> Schema:
        return Schema.from_json(self._version.metadata["schemaString"])

    def get_add_actions(self) -> pa.Table:
        return pa.table({"path": pa.array(list(self._version.files), pa.string())})

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        at: Version | None = self._version
        while at is not None and (limit is None or len(found) < limit):
            found.append({**at.info, "version": at.number})
            at = at.before
        return found

    def create_write_transaction(
        self,
        actions: Sequence[AddAction | RemoveAction],
        mode: str,
        schema: Schema,
        partition_by: object = None,
        commit_properties: CommitProperties | None = None,
    ) -> None:
        adds = [
            {
                "add": {
                    "path": each.path,
                    "size": each.size,
                    "partitionValues": {},
                    "modificationTime": each.modification_time,
                    "dataChange": True,
                    "stats": each.stats,
                }
            }
            for each in actions
        ]
        self._commit([_info("WRITE", commit_properties), *adds, *_txns(commit_properties)])

    def _commit(self, actions: list[dict[str, Any]]) -> None:
        own = {action["txn"]["appId"] for action in actions if "txn" in action}
        for _ in range(_RETRIES):
            newest = _ask(self._url)
            if len(newest) <= self._version.number:
                raise TableNotFoundError(f"no table at {self._url}")
            for other in newest[self._version.number + 1 :]:
                if own & other.own_transactions.keys():
                    raise CommitFailedError("Failed to commit transaction: concurrent transaction")
                if any("metaData" in each or "protocol" in each for each in other.actions):
                    raise CommitFailedError("Failed to commit transaction: metadata changed")
            if _put(self._url, len(newest), actions):
                return
        raise CommitFailedError("Failed to commit transaction: too many attempts")


def read_snapshot(folder: Folder, version: int | None = None) -> TableSnapshot:
    """Return what the product reads of a table's log by delta-rs and a checkpoint of a copy."""
    table: Any = open_table(folder, version)
    found = table._version
    return TableSnapshot(
        folder=folder,
        version=found.number,
        protocol=Protocol.of(found.protocol),
        metadata=found.metadata,
        files=list(found.files.values()),
        removed=list(found.removed),
        domains={},
    )


def _ask(url: str) -> list[Version]:
    """Read a table's log, by a listing."""
    try:
        SimulatedDocuments().look(f"{url}/{LOG}")
    except UnavailableError as error:
        raise OSError(str(error)) from None
    return versions_of(url)


def _put(url: str, number: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Put a commit if its version is absent; delta-rs repeats a request without an answer."""
    data = "".join(f"{json.dumps(each)}\n" for each in actions).encode()
    for attempt in range(_RETRIES):
        try:
            # Unlike the product's own client it does not look whose the commit is that it meets.
            found = SimulatedDocuments(knows_own=False)
            return found.put_if_absent(f"{url}/{commit_name(number)}", data) is not None
        except UnavailableError as error:
            if attempt == _RETRIES - 1:
                raise OSError(str(error)) from None
            active().sleep(active().random.randrange(100 * MS))
    raise DeltaError("no attempt is left")


def _info(operation: str, properties: CommitProperties | None) -> dict[str, Any]:
    said = (None if properties is None else properties.custom_metadata) or {}
    return {"commitInfo": {"timestamp": active().now_us // MS, "operation": operation, **said}}


def _txns(properties: CommitProperties | None) -> list[dict[str, Any]]:
    wanted = (None if properties is None else properties.app_transactions) or []
    return [{"txn": {"appId": each.app_id, "version": each.version}} for each in wanted]

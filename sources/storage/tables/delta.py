"""Delta tables opened by delta-rs: the store's login, attempts, and features it can't read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from sources.errors import HybridError, InputError, UnavailableError
from sources.extensions import items_added
from sources.storage.folder import Folder
from sources.storage.store_kind import kind_of_store

if TYPE_CHECKING:
    import pyarrow.dataset as ds

A = TypeVar("A")
_ATTEMPTS = 5
_PAUSE_S = 0.2
_PATIENCE_S = 30.0
# Of any log one is there, unless somebody has deleted a file that Delta can do without.
_FIRST = (f"{0:020d}.json", "_last_checkpoint")
# How delta-rs refuses a feature of a table that it does not know, or names otherwise.
_UNKNOWN = re.compile(r"Feature '([^']+)' is not|minimum (reader version \d+)|catalog-managed")
# A stack, and the arrows that it draws for a terminal.
_NOISE = re.compile(r"\n\s+0: .*|\s*\x1b\[\d+m↳\x1b\[0m", re.DOTALL)
_INT96_AS_MICROS = "SET datafusion.execution.parquet.coerce_int96 = 'us'"


def delta_table(folder: Folder, version: int | None = None) -> DeltaTable:
    """Open a Delta table by delta-rs, with the present login, which the object keeps.

    Open it again after the login was renewed. In a store, what fails with an OSError is tried up to
    five times, within half a minute.

    Args:
        folder: The table's folder.
        version: Number of the version; None for the newest.

    Raises:
        TableNotFoundError: There is no Delta table.
        DeltaError, OSError: It can't be read.
        UnavailableError: The login to the store has expired.
    """
    return _asked(
        folder, lambda options: DeltaTable(folder.url, version=version, storage_options=options)
    )


def unknown_feature(reason: str) -> str | None:
    """Return the table feature for which delta-rs refuses a table; None for another reason.

    Args:
        reason: Text of its error.
    """
    found = _UNKNOWN.search(reason)
    return found and (found[1] or found[2] or "catalogManaged")


def require_answer(folder: Folder) -> None:
    """Refuse to continue if a table's store does not answer.

    Called after delta-rs has failed, which has no type of its own for that.

    Raises:
        UnavailableError: The store does not answer now.
        InputError: It refuses.
    """
    folder.exists("_delta_log")


def unreadable_table(what: str, folder: Folder, error: Exception, repair: str) -> HybridError:
    """Return the error to raise for a Delta table that delta-rs could not read or write.

    UnavailableError if its store did not answer just before; else InputError.

    Args:
        what: What failed, as the message begins: ``The table s3://lake/t can't be read``.
        folder: The table's folder.
        error: What delta-rs raised.
        repair: What to do about a table that is missing or damaged.

    Raises:
        UnavailableError: The table's store does not answer now.
        InputError: It refuses.
    """
    require_answer(folder)
    reason = " ".join(_NOISE.sub(":", str(error)).split())
    message = f"{what}: {reason.rstrip('.: ')}."
    if isinstance(error, OSError) and not folder.is_local:
        hint = "Nothing is known to be wrong with the table, whose store answers now: try again."
        return UnavailableError(message, hint, table=folder.url)
    if (feature := unknown_feature(reason)) is not None:
        repair = (
            f"The table uses {feature}, which delta-rs can't read: drop the feature (`ALTER TABLE "
            "… DROP FEATURE` in Spark), or copy the rows to a table without it."
        )
    return InputError(message, repair, table=folder.url)


def is_delta_table(folder: Folder) -> bool:
    """Return whether delta-rs finds a Delta table in a folder; False if it has no log.

    Raises:
        OSError, UnavailableError: The store does not answer, or the login to it has expired.
        OSError, InputError: The store refuses.
    """
    if folder.is_local:
        return bool(DeltaTable.is_deltatable(folder.url))

    # `is_deltatable` holds Python's global lock while it waits for a store: a driver would neither
    # write a heartbeat nor renew its lease.
    if any(folder.exists(f"_delta_log/{name}") for name in _FIRST):
        return True

    def opens(options: dict[str, str] | None) -> bool:
        try:
            DeltaTable(folder.url, storage_options=options)
        except TableNotFoundError:
            return False
        return True

    return _asked(folder, opens)


def query_rows(table: DeltaTable, query: str) -> pa.RecordBatchReader:
    """Stream the result of an SQL query over a Delta table, computed by delta-rs's own engine.

    Unlike :func:`dataset_of`, it reads tables with deletion vectors and mapped columns.

    Args:
        table: The table, which the query calls ``target``.
        query: The query, in the SQL of DataFusion.

    Raises:
        Exception: A file is missing, or the query is refused: delta-rs has no type of its own.
    """
    engine = QueryBuilder().register("target", table)
    engine.execute(_INT96_AS_MICROS)
    return pa.RecordBatchReader.from_stream(engine.execute(query))


def dataset_of(table: DeltaTable) -> ds.Dataset:
    """Return a Delta table as an Arrow dataset; use :func:`query_rows` for newer table features.

    Raises:
        DeltaProtocolError: The table has deletion vectors or mapped columns, or needs a newer
            reader.
    """
    return table.to_pyarrow_dataset(parquet_read_options=int96_as_micros())


def int96_as_micros() -> ds.ParquetReadOptions:
    """Return Arrow's Parquet options that read INT96 timestamps (as Spark wrote them) in µs.

    Arrow's default is nanoseconds, which can't hold times after 2262.
    """
    # With it Arrow loads pandas, which most commands can do without.
    from pyarrow.dataset import ParquetReadOptions  # noqa: PLC0415

    return ParquetReadOptions(coerce_int96_timestamp_unit="us")


def expired_login_of(
    path: str, error: Exception, where: str = "its store"
) -> UnavailableError | None:
    """Return the error to raise if delta-rs failed because the login to the store has expired.

    None if the failure has another cause. If the login has expired, it is also looked up again, so
    that the next attempt may succeed.

    Args:
        path: URL of the table.
        error: What delta-rs raised.
        where: Address of the store, for the message.

    Raises:
        InputError: An extension can't be loaded.
    """
    kind = kind_of_store(path, items_added("stores"))
    if kind is None or kind.expired_login is None:
        return None
    found: UnavailableError | None = resolve_name(kind.expired_login)(path, error, where)
    return found


def _asked(folder: Folder, ask: Callable[[dict[str, str] | None], A]) -> A:
    """Ask delta-rs with the login of this moment.

    In a store up to five times within half a minute, as the library does not repeat a request whose
    answer is cut off; and twice if the login has just expired.
    """
    attempts = 1 if folder.is_local else _ATTEMPTS
    has_expired = False
    deadline = time.monotonic() + _PATIENCE_S
    for attempt in range(1, attempts + 1):
        options = folder.documents.delta_options
        try:
            return ask(options)
        except (DeltaError, OSError) as error:
            where = (options or {}).get("AWS_ENDPOINT_URL", "Amazon S3")
            refused = expired_login_of(folder.url, error, where)
            if refused is not None and has_expired:
                raise refused from None
            has_expired = refused is not None
            is_late = attempt == attempts or time.monotonic() > deadline
            if is_late or (refused is None and isinstance(error, DeltaError)):
                raise
        if not has_expired:
            time.sleep(_PAUSE_S * attempt)
    raise AssertionError("the last attempt returns or raises")

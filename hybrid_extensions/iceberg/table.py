"""Opening of an Iceberg table by metadata file, folder or catalog, at the declared snapshot."""

from __future__ import annotations

import zlib

from sources.common.optional import needs_extra
from sources.common.times import iso
from sources.config.source.file_source import FileSource
from sources.errors import HybridError, InputError
from sources.storage.stores import Stores

with needs_extra("lake", "`format: iceberg`"):
    from pyiceberg.catalog import load_catalog
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.table import DataScan, StaticTable

    from hybrid_extensions.iceberg.columns import require_readable
    from hybrid_extensions.iceberg.metadata import ENDINGS, Metadata, read_metadata
    from hybrid_extensions.iceberg.stored_files import StoredFiles

_SHOWN = 5
_UNREADABLE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, ValidationError)


def metadata_file_of(source: FileSource) -> str:
    """Return the current metadata file of a table that is declared by its name in a catalog.

    The catalog is configured as PyIceberg reads it: ``~/.pyiceberg.yaml``, or environment variables
    such as ``PYICEBERG_CATALOG__PROD__URI``
    (https://py.iceberg.apache.org/configuration/).

    Args:
        source: Declaration of the source, whose ``table`` is ``catalog.namespace.table``.

    Raises:
        InputError: The catalog is not configured or does not know the table, or refuses.
    """
    assert source.table is not None
    catalog, _, name = source.table.partition(".")
    try:
        return str(load_catalog(catalog).load_table(name).metadata_location)
    except Exception as error:
        # Each kind of catalog raises errors of its own client.
        reason = str(error).strip().removesuffix(".") or type(error).__name__
        message = (
            f"Source `{source.name}`: table `{name}` can't be looked up in the Iceberg catalog "
            f"`{catalog}`: {reason}."
        )
        hint = (
            f"Configure the catalog as PyIceberg reads it (`PYICEBERG_CATALOG__{catalog.upper()}__"
            "URI` and others, or ~/.pyiceberg.yaml), correct `table`, or declare the table's "
            "metadata file as `path`."
        )
        raise InputError(message, hint, source=source.name, table=source.table) from None


def open_snapshot(source: FileSource, path: str, stores: Stores) -> DataScan:
    """Open the declared snapshot of an Iceberg table, or its current one, with what is to be read.

    Of a table that was never written to, which has no snapshot, it is a scan without files.

    Args:
        source: Declaration of the source; its ``version`` is the id of a snapshot, and its
            ``schema`` names the columns to read.
        path: The metadata file (``….metadata.json``, packed or not), or the table's folder with its
            ``metadata/version-hint.text``; absolute.
        stores: Storages of the pipeline.

    Raises:
        InputError: There is no such table or snapshot; a column has a type that Spark does not
            have; or the snapshot has no list of its manifests.
        UnavailableError: The storage does not answer.
    """
    files = StoredFiles(stores)
    try:
        place = path if path.endswith(ENDINGS) else _hinted(path, files)
        metadata = read_metadata(place, files)
    except HybridError:
        raise
    except _UNREADABLE as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].removesuffix(".")
        message = f"Source `{source.name}`: {path} can't be read as an Iceberg table: {reason}."
        hint = (
            "Correct `path`, which has to be the table's metadata file, or its folder with a "
            "`metadata/version-hint.text` in it; or declare `table: catalog.namespace.name`."
        )
        if source.table is not None:
            hint = "Restore this metadata file, which the catalog names, or correct `table`."
        raise InputError(message, hint, source=source.name, table=path) from None
    table = StaticTable(("static", place), metadata.table, place, files, NoopCatalog("static"))
    if source.version is not None and table.snapshot_by_id(source.version) is None:
        message = (
            f"Source `{source.name}`: the Iceberg table {path} has no snapshot {source.version}."
        )
        hint = _kept_snapshots(table)
        raise InputError(message, hint, source=source.name, field="version")
    # The current snapshot is read by the table's schema, an older one by its own.
    scan = table.scan(snapshot_id=source.version)
    _require_list(source, metadata, scan)
    schema = scan.projection()
    require_readable(source, schema, metadata.unknown.get(schema.schema_id, {}))
    if source.columns:
        scan = scan.select(*(name for name in schema.column_names if name in source.columns))
    return scan


def _kept_snapshots(table: StaticTable) -> str:
    """Return what to write in place of the id of a snapshot that a table does not have (any more).

    Names the ids of the newest snapshots.
    """
    current, kept = table.current_snapshot(), table.snapshots()
    if current is None:
        return "Remove `version`: the table was never written to, and has no snapshot at all."
    newest = sorted(kept, key=lambda each: each.timestamp_ms, reverse=True)[:_SHOWN]
    ids = ", ".join(f"{each.snapshot_id} ({iso(each.timestamp_ms)})" for each in newest)
    return (
        f"Remove `version` to read the current snapshot, {current.snapshot_id}; or, to read an "
        "older one, set `version` to the id of a snapshot that has not expired. The newest of "
        f"{len(kept)}: {ids}."
    )


def _hinted(folder: str, files: StoredFiles) -> str:
    """Return the metadata file that ``version-hint.text`` names by its number or its name."""
    base = f"{folder.rstrip('/')}/metadata"
    with files.new_input(f"{base}/version-hint.text").open() as file:
        hint = bytes(file.read()).decode().strip()
    if hint.endswith(ENDINGS):
        return f"{base}/{hint}"
    name = f"v{hint}" if hint.isnumeric() else hint
    places = [f"{base}/{name}{ending}" for ending in ENDINGS]
    return next((place for place in places if files.new_input(place).exists()), places[0])


def _require_list(source: FileSource, metadata: Metadata, scan: DataScan) -> None:
    snapshot = scan.snapshot()
    if snapshot is None or snapshot.snapshot_id not in metadata.without_list:
        return
    message = (
        f"Source `{source.name}`: snapshot {snapshot.snapshot_id} of the Iceberg table names its "
        "manifests one by one, without a list of them, and is not read so."
    )
    hint = (
        "Rewrite the table's data files with a newer Iceberg (`CALL catalog.system."
        "rewrite_data_files(table => …, options => map('rewrite-all', 'true'))` in Spark), which "
        "makes a snapshot with a list; then plan again."
    )
    raise InputError(message, hint, source=source.name, table=source.shown_place)

"""Opening an Iceberg table: by its metadata file, its folder, or its name in a catalog."""

from __future__ import annotations

from sources.common.optional import needs_extra
from sources.config.file_source import FileSource
from sources.errors import HybridError, InputError
from sources.storage.stores import Stores

with needs_extra("lake", "`format: iceberg`"):
    from pyiceberg.catalog import load_catalog
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import DataScan, StaticTable

    from sources.files.iceberg.stored_files import StoredFiles

_METADATA = ".metadata.json"
_NAME_MAPPING = "schema.name-mapping.default"


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
    """Open the declared snapshot of an Iceberg table, or its current one.

    Args:
        source: Declaration of the source; its ``version`` is the id of a snapshot.
        path: The metadata file (``….metadata.json``), or the table's folder with its
            ``metadata/version-hint.text``; absolute.
        stores: Storages of the pipeline.

    Raises:
        InputError: There is no such table or snapshot; or the files can't be read by their field
            ids, or have deletes that are not supported.
        UnavailableError: The storage does not answer.
    """
    files = StoredFiles(stores)
    try:
        place = path if path.endswith(_METADATA) else _hinted(path, files)
        metadata = FromInputFile.table_metadata(files.new_input(place))
    except HybridError:
        raise
    except (OSError, ValueError, ValidationError) as error:
        reason = str(error).strip().splitlines()[0].removesuffix(".")
        message = f"Source `{source.name}`: {path} can't be read as an Iceberg table: {reason}."
        hint = (
            "Correct `path`, which has to be the table's metadata file, or its folder with a "
            "`metadata/version-hint.text` in it; or declare `table: catalog.namespace.name`."
        )
        raise InputError(message, hint, source=source.name, table=path) from None
    table = StaticTable(("static", place), metadata, place, files, NoopCatalog("static"))
    snapshot = (
        table.current_snapshot() if source.version is None else table.snapshot_by_id(source.version)
    )
    if snapshot is None:
        found = "no snapshot" if source.version is None else f"no snapshot {source.version}"
        message = f"Source `{source.name}`: the Iceberg table {path} has {found}."
        hint = "Correct `version`, which has to be the id of a snapshot that is not expired."
        raise InputError(message, hint, source=source.name, field="version")
    # The current snapshot is read by the table's schema, an older one by its own.
    scan = table.scan(snapshot_id=source.version)
    _require_readable(source, table, scan)
    return scan


def _hinted(folder: str, files: StoredFiles) -> str:
    base = f"{folder.rstrip('/')}/metadata"
    with files.new_input(f"{base}/version-hint.text").open() as file:
        hint = bytes(file.read()).decode().strip()
    if hint.endswith(_METADATA):
        return f"{base}/{hint}"
    return f"{base}/v{hint}{_METADATA}" if hint.isnumeric() else f"{base}/{hint}{_METADATA}"


def _require_readable(source: FileSource, table: StaticTable, scan: DataScan) -> None:
    snapshot = scan.snapshot()
    summary = None if snapshot is None else snapshot.summary
    reason = None
    if _NAME_MAPPING in table.properties:
        reason = "some of its files may have no field ids, as the table has a name mapping"
    elif summary is not None and int(summary["total-equality-deletes"] or 0):
        reason = "it has equality deletes, which tell deleted rows by values, not by positions"
    elif added := [f.name for f in scan.projection().fields if f.initial_default is not None]:
        reason = f"column `{added[0]}` has an initial default, which older files do not hold"
    if reason is not None:
        message = f"Source `{source.name}`: the Iceberg table's files can't be read: {reason}."
        hint = (
            "Rewrite its data files (`CALL catalog.system.rewrite_data_files(…)` in Spark), and "
            "remove the property if it is that; then plan again."
        )
        raise InputError(message, hint, source=source.name, table=source.shown_place)

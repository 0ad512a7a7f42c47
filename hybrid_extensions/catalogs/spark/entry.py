"""The target's name in Spark's catalog (`sink.table`): refused if taken, an external table."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hybrid_extensions.catalogs.spark.metastore import is_of_metastore
from sources.errors import HybridError, InputError, UnavailableError
from sources.storage.folder import Folder

_ABSENT = {"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"}
_NO_SCHEMA = {"SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE"}
# The name refers to a folder without a table: known once the target is made.
_NO_TABLE = "DELTA_PATH_DOES_NOT_EXIST"


class CatalogEntry:
    """Entry of the target in the catalog of Spark's session (``sink.table``), for readers.

    The pipeline itself uses the folder alone. The entry is an external table: dropping it drops no
    data, and a promotion or rollback needs no change of it.

    Args:
        name: ``schema.table`` or ``catalog.schema.table``.
        target: The target's folder.
    """

    def __init__(self, name: str, target: Folder) -> None:
        self._name = name
        self._target = target
        self._quoted = ".".join(f"`{part}`" for part in name.split("."))

    def require_free(self, spark: SparkSession) -> None:
        """Refuse a catalog name that is taken or can't be created; nothing is changed.

        Called before the target is created; an entry of this target is fine. The folder that an
        entry of this name refers to may have no table yet, if it is the target's.

        Raises:
            InputError: Another table or a view has the name, or there is no such schema.
            UnavailableError: The catalog does not answer.
        """
        try:
            self._require_own(spark)
        except PySparkException as error:
            if (condition := error.getCondition()) in _ABSENT:
                self._run(spark, f"DESCRIBE NAMESPACE {self._quoted.rpartition('.')[0]}")
            elif condition != _NO_TABLE or self._plain_target not in str(error):
                raise self._refused(error) from None

    def register(self, spark: SparkSession) -> None:
        """Create the entry unless it exists; call it once the target exists.

        Raises:
            InputError: Somebody else took the name meanwhile, or the catalog refuses.
            UnavailableError: The catalog does not answer.
        """
        place = self._target.hadoop_path.replace("'", "\\'")
        self._run(
            spark, f"CREATE TABLE IF NOT EXISTS {self._quoted} USING delta LOCATION '{place}'"
        )
        try:
            self._require_own(spark)
        except PySparkException as error:
            raise self._refused(error) from None

    @property
    def _plain_target(self) -> str:
        return _plain(self._target.hadoop_path)

    def _require_own(self, spark: SparkSession) -> None:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {self._quoted}").collect()
        known = {row["col_name"]: row["data_type"] for row in rows}
        provider, there = known.get("Provider"), known.get("Location", "")
        if provider == "delta" and _plain(there) == self._plain_target:
            return
        kind = "table" if provider else str(known.get("Type", "table")).lower()
        what = f"{kind} of format {provider}" if provider else kind
        message = (
            f"`sink.table`: the name {self._name} belongs to something else in the catalog, a "
            f"{what}{f' at {there}' if there else ''}. This pipeline's table is at {self._target}. "
            "Nothing was started."
        )
        hint = (
            "Declare another name under `sink.table`. Only if nobody needs that entry, drop it "
            f"(`DROP TABLE {self._name}`): if the catalog manages its table, the rows are deleted, "
            "too."
        )
        raise InputError(message, hint, field="sink.table", value=self._name)

    def _run(self, spark: SparkSession, text: str) -> None:
        try:
            spark.sql(text)
        except PySparkException as error:
            raise self._refused(error) from None

    def _refused(self, error: PySparkException) -> HybridError:
        reason = str(error).partition("\n")[0].rstrip(".; ")
        if error.getCondition() in _NO_SCHEMA:
            schema = self._name.rpartition(".")[0]
            message = (
                f"`sink.table`: the catalog has no schema {schema} for {self._name}. The query was "
                "not started."
            )
            hint = f"Create it (`CREATE SCHEMA {schema}`), or declare another name."
            return InputError(message, hint, field="sink.table", value=self._name)
        if error.getCondition() == _NO_TABLE:
            message = (
                f"`sink.table`: {self._name} belongs to another folder without a table: {reason}. "
                "The query was not started."
            )
            hint = f"Drop that entry first (`DROP TABLE {self._name}`), or declare another name."
            return InputError(message, hint, field="sink.table", value=self._name)
        message = (
            f"`sink.table`: the catalog can't be asked about {self._name}: {reason}. The query was "
            "not started."
        )
        if is_of_metastore(reason):
            hint = (
                "Check that the metastore runs and can be reached "
                "(`spark.conf: spark.hadoop.hive.metastore.uris`), then run the pipeline again: "
                "`hybrid run P`."
            )
            return UnavailableError(message, hint, server="metastore")
        hint = (
            "Correct the name or the catalog's settings under `spark.conf`, then run the pipeline "
            "again: `hybrid run P`."
        )
        return InputError(message, hint, field="sink.table", value=self._name)


def entry_of(name: str, target: Folder) -> CatalogEntry:
    """Return the entry of a name, ``sink.table``, for the target in a folder.

    Asks nothing.
    """
    return CatalogEntry(name, target)


def _plain(location: str) -> str:
    """Return a location in a normal form, to compare it with others."""
    scheme, _, rest = location.rstrip("/").partition(":")
    return f"/{rest.lstrip('/')}" if scheme == "file" else location.rstrip("/")

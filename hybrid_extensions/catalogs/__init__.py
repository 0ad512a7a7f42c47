"""Names of tables in the catalog of Spark's session, such as a Hive metastore.

Belongs here: the entry of the target (`sink.table`), and the folder of a Delta table that a source
names (`table`). Does not belong here: catalogs of other formats, which are their extensions'.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "catalogs",
    catalog_entry="hybrid_extensions.catalogs.spark.entry:entry_of",
    catalog_place="hybrid_extensions.catalogs.spark.place:table_folder",
)

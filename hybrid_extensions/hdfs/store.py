"""Registration of HDFS, ``hdfs://namenode/path``, as a kind of store."""

from sources.storage.store_kind import StoreKind

STORES = [
    StoreKind(
        schemes=("hdfs",),
        forms=("hdfs://namenode/path",),
        files="hybrid_extensions.hdfs.files:files_of",
        documents="hybrid_extensions.hdfs.documents:documents_of",
    )
]

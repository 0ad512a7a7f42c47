"""Registration of `abfss://` and `gs://` as kinds of stores, and forms of their paths."""

from sources.storage.store_kind import StoreKind

STORES = [
    StoreKind(
        schemes=("abfss", "gs"),
        forms=("abfss://container@account.dfs.core.windows.net/path", "gs://bucket/key"),
        files="hybrid_extensions.clouds.files:files_of",
        documents="hybrid_extensions.clouds.documents:documents_of",
        spark_conf="hybrid_extensions.clouds.spark_conf:cloud_conf",
    )
]

"""Registration of object stores with the S3 API as a kind of store."""

from sources.storage.store_kind import StoreKind

STORES = [
    StoreKind(
        schemes=("s3",),
        forms=("s3://bucket/key",),
        files="hybrid_extensions.s3.files:S3Storage",
        documents="hybrid_extensions.s3.documents:documents_of",
        settings="s3",
        warnings="hybrid_extensions.s3.bucket_rules:bucket_warnings",
        expired_login="hybrid_extensions.s3.login:expired_login_of",
    )
]

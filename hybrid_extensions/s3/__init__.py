"""Object stores with the S3 API: files, documents, the login, and a bucket's rules."""

from sources.extensions import Extension

EXTENSION = Extension("s3", stores="hybrid_extensions.s3.store:STORES")

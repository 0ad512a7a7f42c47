"""Object stores with the S3 API: files, documents, the login, and a bucket's rules.

Belongs here: how files are listed and read, how a document is written by condition, when
credentials are renewed, and which rules of a bucket endanger a pipeline's objects.
"""

from sources.extensions import Extension

EXTENSION = Extension("s3", stores="hybrid_extensions.s3.store:STORES")

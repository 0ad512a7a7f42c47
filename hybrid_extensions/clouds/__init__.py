"""Azure Data Lake Storage and Google Cloud Storage, served by obstore."""

from sources.extensions import Extension

EXTENSION = Extension("clouds", stores="hybrid_extensions.clouds.store:STORES")

"""Azure Data Lake Storage and Google Cloud Storage, served by obstore.

Belongs here: how files are listed and read, how a document is written by condition, and what a
repeated request counts as that meets its own first one; logins.
"""

from sources.extensions import Extension

EXTENSION = Extension("clouds", stores="hybrid_extensions.clouds.store:STORES")

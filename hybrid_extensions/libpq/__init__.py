"""Connections to PostgreSQL that no silence of the server holds for ever, for other extensions.

Belongs here: after how long a server counts as silent, and whether an error means that it is away.

It adds nothing by itself.
"""

from sources.extensions import Extension

EXTENSION = Extension("libpq")

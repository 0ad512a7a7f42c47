"""Feast: the pipeline's table as a feature view of a Feast repository.

Belongs here: which columns are keys, times and features of a view, and which files of a repository
may be replaced.

Removable: nothing else but its command imports it. It writes files that Feast reads, and needs no
Feast itself.
"""

from sources.extensions import Extension

EXTENSION = Extension("feast", commands="hybrid_extensions.feast.cli:app")

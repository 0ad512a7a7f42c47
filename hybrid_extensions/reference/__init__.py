"""`hybrid reference`: all fields of a pipeline's file, as a page and as a JSON Schema.

Belongs here: how fields and their docstrings become the page and the schema.
"""

from sources.extensions import Extension

EXTENSION = Extension("reference", commands="hybrid_extensions.reference.cli:app")

"""Delta tables as history: one version, planned from its log, or what commits append."""

from sources.extensions import Extension

EXTENSION = Extension("delta_history", lakes="hybrid_extensions.delta_history.delta_table:LAKES")

"""Report about one pipeline as a single HTML page, for tickets and for people without access.

Belongs here: what the page shows, and which credentials are removed from it.

What is known is collected (:mod:`~hybrid_extensions.report.collect`) into one model
(:mod:`~hybrid_extensions.report.model`), which is then rendered
(:mod:`~hybrid_extensions.report.page`). Code that decides or changes anything does not belong here:
the page shows what plan, ledger, state and status contain already.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "report",
    commands="hybrid_extensions.report.cli:app",
    definitions="hybrid_extensions.report.progress_asset:definitions",
    chain_assets=("progress",),
    actions="hybrid_extensions.report.dagster:actions",
)

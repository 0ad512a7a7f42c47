"""Schedules in a pipeline's file: what Dagster does to a table again and again.

Belongs here: how a schedule is declared, and when a tick is skipped. It adds nothing by itself:
what is done at a tick belongs to the extensions that import this.
"""

from sources.extensions import Extension

EXTENSION = Extension("schedules")

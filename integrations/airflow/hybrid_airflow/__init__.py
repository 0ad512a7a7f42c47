"""Airflow provider: the steps of a pipeline's chain as tasks, and a watch over its live run.

What belongs here runs in Airflow's environment, where neither this project's other packages nor
Spark are installed. It decides nothing about a pipeline: it runs the command ``hybrid`` of another
environment and reads the documents that ``--json`` prints.
"""

from __future__ import annotations


def provider_info() -> dict[str, object]:
    """Return what Airflow lists about this package; called through its entry point."""
    return {
        "package-name": "hybrid-backfill-airflow",
        "name": "Hybrid backfill",
        "description": "Batch-then-stream backfill: files, then Kafka, as one Spark query.",
    }

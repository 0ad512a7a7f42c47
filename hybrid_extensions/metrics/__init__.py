"""State of pipelines as Prometheus metrics; needs the extra ``metrics``.

Belongs here: names and meanings of the metrics, what one of a pipeline that can't be read is, and
how long a live run's unread input is safe in Kafka.
"""

from sources.extensions import Extension

EXTENSION = Extension("metrics", commands="hybrid_extensions.metrics.cli:app")

"""Drivers on YARN and on Kubernetes: how they are found, asked about and ended there.

Belongs here: questions to a cluster by its own command line tool, and what its answers mean. Does
not belong here: what is submitted (`spark_jobs.launch.submission`).
"""

from sources.extensions import Extension

EXTENSION = Extension("clusters", clusters="hybrid_extensions.clusters.clusters:CLUSTERS")

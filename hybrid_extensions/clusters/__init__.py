"""Drivers on YARN and on Kubernetes: how to find them, ask about them and end them.

Belongs here: questions to a cluster by its own command line tool, and what its answers mean. Does
not belong here: what is submitted (`spark_jobs.launch.submission`).
"""

from sources.extensions import Extension

EXTENSION = Extension("clusters", clusters="hybrid_extensions.clusters.clusters:CLUSTERS")

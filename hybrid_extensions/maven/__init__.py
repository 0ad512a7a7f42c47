"""Download of JVM parts from a repository of Maven, with the Ivy inside PySpark.

Belongs here: how a set of jars is downloaded once, from which repository and with which login, and
what its failures mean.
"""

from sources.extensions import Extension

EXTENSION = Extension("maven", jars="hybrid_extensions.maven.download:download")

"""Download of JVM parts from a repository of Maven, with the Ivy inside PySpark."""

from sources.extensions import Extension

EXTENSION = Extension("maven", jars="hybrid_extensions.maven.download:download")

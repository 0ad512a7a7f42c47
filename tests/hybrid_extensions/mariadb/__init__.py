"""Tests of `hybrid_extensions.mariadb`."""

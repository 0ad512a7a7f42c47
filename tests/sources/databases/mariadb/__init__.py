"""Tests of `sources.databases.mariadb`."""

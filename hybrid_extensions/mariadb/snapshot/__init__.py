"""Snapshots of MariaDB and MySQL tables: checks, locks, division into chunks."""

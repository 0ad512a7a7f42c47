"""Databases on this machine, for development and tests.

Belongs here: settings, users and passwords of local servers of PostgreSQL, MariaDB and MySQL.
"""

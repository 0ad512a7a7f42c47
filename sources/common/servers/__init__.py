"""Servers that several extensions speak to: what both sides have to agree on.

Belongs here: the number by which a connector registers with a MariaDB or MySQL server.
"""

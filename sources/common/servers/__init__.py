"""Servers that several extensions speak to: connections to PostgreSQL, names of clients."""

"""Folders that are tables of a lake, and the logs in them.

Belongs here: which folder is a table, where its log lies, and which times its statistics contain.
"""

"""JSON lines as files: blocks by Arrow, single objects by Python.

Belongs here: which types and numbers keep lines away from the fast parser, and what a line that it
can't read becomes.
"""

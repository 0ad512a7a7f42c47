"""Capture of database tables, as the chain and the supervision ask for it; an extension does it.

Belongs here: the interface, and what its answers are. Does not belong here: whatever connects to a
database, or decides by what it answers (the extension `cdc`).
"""

"""Generations next to each other: their list, and the turns of what changes the table of one.

Belongs here: what all changes of a table share, whether a promotion, a range or upkeep makes them.
Does not belong here: which generation serves, which is a rule of `sources.generations`; what
replaces the table that serves (`hybrid_extensions.generations`).
"""

"""Generations next to each other: begin, compare, promote, roll back.

Belongs here: commands on generations. Does not belong here: which generation serves, which is a
rule of `sources.generations`.
"""

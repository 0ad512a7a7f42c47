"""The command line `hybrid`: commands, their tables on a terminal, and their JSON.

Belongs here: parsing arguments and showing answers: how a table fits the width of a terminal, and
how a command that a message names is pasted. Does not belong here: decisions, and anything that
imports Dagster, which would make every command start slowly.
"""

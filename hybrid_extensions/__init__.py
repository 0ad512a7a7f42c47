"""Extensions of the project itself: each package is optional and used only through its entry point.

Belongs here: what a pipeline can do without, with all its parts: fields of its file, commands,
definitions of Dagster, status. Each package has a constant `EXTENSION`, by which
:mod:`sources.extensions` finds it. Extensions do not know each other, but for
`servers`, and `cdc`, on which those about captured databases stand.
"""

"""A declaration as a YAML document: reading it, and refusing what it must not have.

Belongs here: how `${NAME}` is replaced, which secrets in plain text are refused, and the words for
a field that is wrong.
"""

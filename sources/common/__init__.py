"""What every room of `sources` builds on: positions, schemas, state documents, secrets.

Belongs here: types and rules without a broker, a file system or a declaration. Does not belong
here: anything that only one other room uses.
"""

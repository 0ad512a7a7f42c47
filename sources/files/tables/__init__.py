"""Tables of a lake as history: the files of one version, and their event times."""

"""What runs when, and what people see of it: Dagster definitions, command line, supervision, audit.

Belongs here: the steps of a chain and the loop over them (`chain`), what each does (`operations`),
and everything that calls them. Does not belong here: data logic; rows are read and written by
`spark_jobs`.
"""

from importlib.util import find_spec
from pathlib import Path

# Python takes the first module of a name that it finds. Before anything of another one runs:
for _name in ("sources", "spark_jobs", "hybrid_extensions"):
    _found = find_spec(_name)
    _own = Path(__file__).resolve().parents[1] / _name
    # One folder may be named in several ways, such as with `.` in its path.
    if _found is not None and Path(_found.origin or "").resolve() != _own / "__init__.py":
        _message = (
            f"The package `{_name}` of hybrid-backfill is at {_own}, but Python finds another one "
            f"at {_found.origin or list(_found.submodule_search_locations or [])}. Rename that "
            "file or folder, uninstall the distribution that it belongs to, or start from another "
            "folder."
        )
        raise ImportError(_message)

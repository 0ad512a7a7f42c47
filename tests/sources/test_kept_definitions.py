"""What is copied for a generation, so that its runs do not follow later changes."""

from __future__ import annotations

from pathlib import Path

import yaml

from sources.config.loader import KEPT, load_pipeline
from sources.kept_definitions import keep_definition

MODULES = {
    "transforms.py": "from shop.rules import vip\nimport plain\nimport json\n",
    # A package without `__init__.py`, and a module in it that another one imports.
    "shop/rules.py": "def vip(rows):\n    from shop.deep.limits import high\n    return rows\n",
    "shop/deep/limits.py": "high = 7\n",
    "plain/__init__.py": "",
    "unused.py": "",
}


def test_the_modules_that_a_transform_imports_are_kept_and_no_others(tmp_path: Path) -> None:
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    document = {
        "name": "orders",
        "event_time": "at",
        "key": ["id"],
        "sources": [
            {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
        ],
        "transform": "transforms:identity",
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
    }
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(document))
    loaded = load_pipeline(tmp_path / "orders.yaml")
    generation = loaded.open_generation(create=True)
    assert generation is not None
    keep_definition(loaded, generation)
    kept = {name.removeprefix("definition/") for name in generation.names("definition/*")}
    assert kept - {KEPT} == {"orders.yaml", *MODULES} - {"unused.py"}

"""Versions, targets, packages and pages agree wherever the project names them."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from spark_jobs.jvm.jar_sets import sets_with
from spark_jobs.jvm.spark_version import DEFAULT, SUPPORTED
from tests.extensions import LACKING, LISTED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [
    "feeds",
    "hybrid_demo",
    "hybrid_extensions",
    "hybrid_testing",
    "orchestration",
    "services",
    "sources",
    "spark_jobs",
]
COMPATIBILITY = (ROOT / "docs" / "versions.md").read_text().partition("## Compatibility")[2]

NAMED_ARTIFACTS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "delta-spark_{}_2.13",
    "hadoop-aws",
    "hadoop-azure",
    "hadoop-gcp",
    "kafka_2.13",
    "connect-runtime",
    "debezium-connector-postgres",
    "debezium-connector-mariadb",
)


def workflow(name: str = "ci") -> dict[str, Any]:
    text = (ROOT / f".github/workflows/{name}.yml").read_text()
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def steps() -> Iterator[dict[str, Any]]:
    for name in ("ci", "release"):
        for job in workflow(name)["jobs"].values():
            yield from job["steps"]


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def made(job: dict[str, Any]) -> set[str]:
    """The targets that a job makes, one for each value of its matrix where a step names that."""
    found: set[str] = set()
    for step in job["steps"]:
        program, _, target = step.get("run", "").partition(" ")
        if program != "make":
            continue
        variable = re.match(r"\$\{\{ matrix\.(\w+) \}\}$", target)
        found.update(job["strategy"]["matrix"][variable[1]] if variable else [target.split()[0]])
    return found


class TestVersions:
    def test_the_changelog_begins_with_the_version_of_the_project(self) -> None:
        headings = re.findall(
            r"^## (\S+) - \S+$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
        )
        assert headings[0] == PROJECT["project"]["version"]

    def test_the_compatibility_table_has_each_spark_and_the_tests_run_with_the_default(
        self,
    ) -> None:
        (row,) = re.findall(r"^\| Spark \(PySpark\) \|.*$", COMPATIBILITY, re.MULTILINE)
        assert [each.spark for each in SUPPORTED.values() if each.spark not in row] == []
        locked = (ROOT / "constraints.txt").read_text().splitlines()
        assert f"pyspark=={SUPPORTED[DEFAULT].spark}" in locked

    def test_only_supported_versions_of_spark_can_be_installed(self) -> None:
        dependencies = map(Requirement, PROJECT["project"]["dependencies"])
        (spark,) = [each for each in dependencies if each.name == "pyspark"]
        allowed = {f"4.{minor}" for minor in range(9) if spark.specifier.contains(f"4.{minor}.9")}
        assert allowed == SUPPORTED.keys()

    @pytest.mark.parametrize("minor", SUPPORTED)
    def test_the_compatibility_table_has_the_versions_of_the_jvm_parts(self, minor: str) -> None:
        sets = sets_with(SUPPORTED[minor]).values()
        coordinates = [each for one in sets for each in (*one.packages, *one.pins)]
        found = {artifact: version for _, artifact, version in (c.split(":") for c in coordinates)}
        names = [each.format(minor) for each in NAMED_ARTIFACTS]
        assert minor != DEFAULT or set(names) <= found.keys()
        for artifact in found.keys() & set(names):
            version = found[artifact]
            assert re.search(rf"\b{re.escape(version)}\b", COMPATIBILITY), artifact


class TestWorkflow:
    def test_it_runs_targets_of_the_makefile(self) -> None:
        found = set().union(*map(made, workflow()["jobs"].values()))
        assert {"lint", "fast", "test"} <= found <= targets()

    def test_each_demo_is_run_every_night(self) -> None:
        demos = {name for name in targets() if name.startswith("demo")}
        nightly = [
            job for job in workflow()["jobs"].values() if "== 'schedule'" in job.get("if", "")
        ]
        assert demos
        assert demos - set().union(*map(made, nightly)) == set()

    def test_of_a_tag_the_wheel_is_made_tried_and_kept_and_nothing_is_published(self) -> None:
        found = workflow("release")
        assert found["permissions"] == {"contents": "read"}
        assert made(found["jobs"]["wheel"]) == {"wheel"} <= targets()
        [kept] = [
            step["with"]["path"] for step in steps() if step.get("with", {}).get("name") == "wheel"
        ]
        assert "--outdir $(WHEEL)/dist" in (ROOT / "Makefile").read_text()
        assert kept == "build/wheel/dist"

    def test_every_action_is_pinned_to_a_commit(self) -> None:
        found = [step["uses"] for step in steps() if "uses" in step]
        assert found
        assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each) for each in found), found

    def test_the_compatibility_table_names_each_python_that_tests_run_on(self) -> None:
        pythons = workflow()["jobs"]["fast"]["strategy"]["matrix"]["python"]
        minimum = PROJECT["project"]["requires-python"].removeprefix(">=")
        assert pythons[0] == minimum
        (row,) = re.findall(r"^\| Python \|.*$", COMPATIBILITY, re.MULTILINE)
        images = "".join(job["container"] for job in workflow()["jobs"].values())
        named = re.findall(r"python:(\d\.\d+)", images)
        assert [python for python in [*pythons, *named] if python not in row] == []

    def test_each_supported_spark_is_tested(self) -> None:
        others = workflow()["jobs"]["test-spark"]["strategy"]["matrix"]["spark"]
        assert {DEFAULT, *others} == SUPPORTED.keys()

    def test_lint_builds_the_documentation(self) -> None:
        recipe = (ROOT / "Makefile").read_text().partition("\nlint: install\n")[2]
        assert "\t$(MAKE) docs\n" in recipe.partition("\n\n")[0] + "\n"


class TestPackages:
    def test_each_is_marked_as_typed(self) -> None:
        assert [name for name in PACKAGES if not (ROOT / name / "py.typed").exists()] == []

    def test_a_wheel_contains_every_file_that_is_no_python(self) -> None:
        patterns = PROJECT["tool"]["setuptools"]["package-data"]
        for name in PACKAGES:
            of_package = [*patterns.get("*", []), *patterns.get(name, [])]
            for file in (ROOT / name).rglob("*"):
                if file.is_dir() or file.suffix in {".py", ".pyc"}:
                    continue
                relative = str(file.relative_to(ROOT / name))
                assert any(fnmatch.fnmatch(relative, each) for each in of_package), file


def test_every_extension_is_on_its_page() -> None:
    there = {each.parent.name for each in (ROOT / "hybrid_extensions").glob("*/__init__.py")}
    assert there == set(LISTED) - set(LACKING)


class TestHooks:
    def test_pre_commit_runs_programs_of_the_virtual_environment(self) -> None:
        config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
        hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
        assert {repo["repo"] for repo in config["repos"]} == {"local"}
        assert {hook["entry"].split()[0] for hook in hooks} == {".venv/bin/ruff", ".venv/bin/mypy"}


class TestPages:
    def test_the_index_of_the_docs_names_each_page(self) -> None:
        index = (ROOT / "docs" / "README.md").read_text()
        pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
        assert sorted(page for page in pages if f"]({page})" not in index) == []

    def test_each_word_of_the_glossary_is_in_its_list(self) -> None:
        text = (ROOT / "docs" / "glossary.md").read_text()
        words = re.findall(r"^## (.+)$", text, re.MULTILINE)
        listed = re.findall(r"\[([\w -]+)\]\(#", text.partition("\n## ")[0])
        assert sorted(listed) == sorted(word.lower() for word in words)
        assert words == sorted(words)

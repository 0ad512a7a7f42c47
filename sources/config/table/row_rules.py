"""Declaration of row rules: what has to be true of each row, and what happens to the others.

A rule is a condition in Spark SQL on the columns of one row, after ``select``. As with a CHECK
constraint of SQL, a row breaks it only if the condition is false: one that is null, as any
comparison with a null value is, does not. The first rule that a row breaks, in the order of the
declaration, decides what happens to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal

import pyarrow as pa
from sqlglot import exp

from sources.common.fields import Declared, Name, or_text
from sources.common.schema import type_name
from sources.common.sql.proven_expressions import Proven, Unproven, translate
from sources.common.sql.row_sql import parse_expression, require_row_by_row
from sources.errors import ErrorFields, InputError

RULE_KIND = "rule."
"""What the kind of a bad record begins with that breaks a rule; the rule's name follows."""
_VARYING = (exp.Rand, exp.Randn, exp.Uuid, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)


class Rule(Declared):
    """A rule about rows: its condition, and what happens to a row that breaks it.

    Attributes:
        check: Condition in Spark SQL on the columns of one row, after ``select``. A row breaks it
            if it is false; if it is null, the row passes, as with a CHECK constraint.
        on_violation: What happens to a row that breaks it: ``fail`` ends the run and reports the
            row's place; ``drop`` leaves it out and counts it; ``quarantine`` writes it to the
            quarantine table of its source, too.

    """

    check: str
    on_violation: Literal["fail", "drop", "quarantine"] = "fail"


DeclaredRules = dict[Name, Annotated[Rule, or_text(Rule, "check")]]
"""Rules by name; a rule's condition alone stands for one that ends the run."""


@dataclass(frozen=True)
class RowRules:
    """Rules of a pipeline, in the order in which they are tried; the first broken one decides.

    Attributes:
        rules: The rules by name.
        deleted: Column that is true for a change that deletes a row (``sink.deleted``); rules do
            not apply to such a change, which has no values. None if there is none.
        sample: Condition in Spark SQL on the rows that are read at all (``sample``); None if all
            are. Rules apply only to these.
        sample_in_duckdb: The same condition in DuckDB's SQL.
        changes_expressions: Declared Spark property that changes the meaning of conditions, so that
            DuckDB can't decide them; None without one.
        of: Columns of the rows, after ``select``, by which rules are translated for DuckDB; None
            until :meth:`over` binds them.
    """

    rules: Mapping[str, Rule] = field(default_factory=dict)
    deleted: str | None = None
    sample: str | None = None
    sample_in_duckdb: str | None = None
    changes_expressions: str | None = None
    of: pa.Schema | None = None

    @property
    def left_out(self) -> dict[str, str]:
        """Policies of the rules whose rows are left out: ``drop`` or ``quarantine`` by name.

        Empty without such rules.
        """
        return {name: how for name, how in self._policies.items() if how != "fail"}

    @property
    def failing(self) -> list[str]:
        """Names of the rules that end the run if a row breaks them; empty without such rules."""
        return [name for name, how in self._policies.items() if how == "fail"]

    def text(self, name: str) -> str:
        """Return a rule as it is written in the pipeline's file, for messages.

        Raises KeyError if there is no rule of this name.
        """
        return f"`rules.{name}: {self.rules[name].check}`"

    def contract(self) -> dict[str, object]:
        """Return conditions of rules and sample, by name: what a checkpoint depends on.

        A generation keeps digests of them, and refuses to continue after one was changed. Empty
        without rules and sample.
        """
        sample = {} if self.sample is None else {"sample": self.sample}
        return {**sample, **{f"rules.{name}": rule.check for name, rule in self.rules.items()}}

    @property
    def columns(self) -> set[str]:
        """Names of the columns that the rules use; empty without rules.

        Raises:
            InputError: The text of a rule is not one expression of Spark SQL.
        """
        used = (tree.find_all(exp.Column) for tree in self._trees.values())
        return {column.parts[0].name for columns in used for column in columns}

    def require_sql(self) -> None:
        """Refuse rules that are not SQL, without looking at any columns.

        Raises:
            InputError: The text of a rule is not one expression of Spark SQL.
        """
        assert self._trees is not None

    def require_columns(self, columns: pa.Schema) -> list[str]:
        """Refuse rules that can't be decided for a row with these columns.

        Args:
            columns: The columns of all sources, after ``select``.

        Returns:
            A warning for each rule that only Spark can evaluate, so that no audit proves it.

        Raises:
            InputError: A rule is not SQL, uses a column that does not exist, is not evaluated row
                by row, depends on chance or the clock, or is no condition.
        """
        warnings = []
        for name in self.rules:
            tree, fields = self._trees[name], _fields(name)
            where, hint = self._where(name), "Write a condition on the columns of one row."
            require_row_by_row(tree, columns.names, where, hint, fields)
            if (varying := tree.find(*_VARYING)) is not None:
                message = (
                    f"{where} depends on `{varying.sql('spark')}`: a row may break it in one run "
                    "and pass in the next."
                )
                raise InputError(message, "Compare columns with fixed values only.", **fields)
            translation = self._translation(name, columns)
            if isinstance(translation, Unproven):
                warnings.append(
                    f"{where} is evaluated by Spark alone, so the audit can't prove which rows it "
                    f"leaves out: {translation.reason} is not among the proven expressions."
                )
            elif translation.type not in (pa.bool_(), pa.null()):
                kind = type_name(translation.type)
                message = f"{where} is not a condition but a value of type {kind}."
                hint = "Write a comparison, such as `amount > 0`."
                raise InputError(message, hint, **fields)
        return warnings

    def over(self, columns: pa.Schema) -> RowRules:
        """Return a copy of the rules for rows with these columns, so that they can be translated.

        Args:
            columns: Columns of a row, after ``select``.
        """
        return replace(self, of=columns)

    def _translation(self, name: str, columns: pa.Schema) -> Proven | Unproven:
        if self.changes_expressions is not None:
            return Unproven(f"what `{self.changes_expressions}` of `spark.conf` changes")
        return translate(self.rules[name].check, columns)

    @property
    def spark_sql(self) -> str:
        """Spark SQL for the name of the first rule that a row breaks; null if it breaks none.

        Evaluate it only if there are rules.
        """
        return self._first({name: rule.check for name, rule in self.rules.items()}, "`")

    @property
    def duckdb_sql(self) -> str:
        """DuckDB expression: name of the first rule that a row breaks, or null if it breaks none.

        Only of rules that DuckDB evaluates as Spark does; the others are in :attr:`unproven`. Null
        for every row until :meth:`over` binds columns.
        """
        made = self._translations.items()
        proven = {name: each.sql for name, each in made if isinstance(each, Proven)}
        return self._first(proven, '"') if proven else "CAST(NULL AS VARCHAR)"

    @property
    def unproven(self) -> dict[str, str]:
        """Reasons why only Spark evaluates a rule, by the rule's name; empty without columns."""
        made = self._translations.items()
        return {name: each.reason for name, each in made if isinstance(each, Unproven)}

    @property
    def _translations(self) -> dict[str, Proven | Unproven]:
        if self.of is None:
            return {}
        return {name: self._translation(name, self.of) for name in self.rules}

    def _first(self, conditions: Mapping[str, str], quote: str) -> str:
        # The line break ends a comment in the user's text.
        broken = [f"WHEN NOT (\n{each}\n) THEN '{name}'" for name, each in conditions.items()]
        if self.deleted is not None:
            broken.insert(0, f"WHEN {quote}{self.deleted}{quote} THEN NULL")
        return f"CASE {' '.join(broken)} END"

    @property
    def _policies(self) -> dict[str, str]:
        return {name: rule.on_violation for name, rule in self.rules.items()}

    def _where(self, name: str) -> str:
        return f"Rule {self.text(name)}"

    @cached_property
    def _trees(self) -> dict[str, exp.Expr]:
        return {
            name: parse_expression(rule.check, self._where(name), _fields(name))
            for name, rule in self.rules.items()
        }


NO_RULES = RowRules()
"""Of a pipeline that declares none: every row passes."""


def _fields(name: str) -> ErrorFields:
    return {"field": f"rules.{name}"}

"""Mutants of a module: one small change each, made in its syntax tree and never in its file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import NamedTuple

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_ADDED: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Without them a test fails for a name that is not defined, whatever it is a test of.
_REMOVED = (ast.Raise, ast.AugAssign, ast.Delete, ast.Continue, ast.Break)
_SHOWN = 60


class Function(NamedTuple):
    """A function of a module or a method of a class, with all that is defined in it.

    Attributes:
        name: Its qualified name.
        first_line: Its first line, that of its first decorator if it has any.
    """

    name: str
    first_line: int


class Mutant(NamedTuple):
    """A module with one change.

    Attributes:
        module: Path of the module, relative to the repository.
        number: Place of the change among those of the module, from 0 on.
        function: The function that is changed.
        line: Where the change is.
        lines: First and last line of the statement that it is part of, without a block's body.
        change: What is written there, and what instead.
    """

    module: str
    number: int
    function: Function
    line: int
    lines: tuple[int, int]
    change: str


class _Place(NamedTuple):
    function: Function
    line: int
    lines: tuple[int, int]
    change: str
    apply: Callable[[], None]


def mutants_of(root: Path, module: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines.

    Changed are the bodies of functions: no annotations, default values, decorators, docstrings,
    texts of messages or assertions, which only say to mypy what is known.

    Args:
        root: Folder of the repository.
        module: Path of the module's file in it.
    """
    places = enumerate(_places(_parsed(root / module)))
    return [Mutant(module, number, *place[:4]) for number, place in places]


def mutated_code(root: Path, mutant: Mutant) -> CodeType:
    """Return the code of a mutant's function."""
    tree = _parsed(root / mutant.module)
    next(islice(_places(tree), mutant.number, None)).apply()
    compiled = compile(
        ast.fix_missing_locations(tree), str(root / mutant.module), "exec", dont_inherit=True
    )
    return next(
        code
        for code in _codes(compiled)
        if Function(code.co_qualname, code.co_firstlineno) == mutant.function
    )


def _parsed(path: Path) -> ast.Module:
    return ast.parse(_source(path), str(path))


@cache
def _source(path: Path) -> str:
    """Return a file's text as it was when its functions were loaded: somebody may edit it."""
    return path.read_text()


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _places(tree: ast.Module) -> Iterator[_Place]:
    for function, found in _functions(tree, ""):
        for position, statement in enumerate(found.body):
            is_docstring = position == 0 and ast.get_docstring(found, clean=False) is not None
            if not is_docstring:
                yield from _changed(found.body, position, statement, function, (0, 0))


def _functions(
    within: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[Function, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for each in within.body:
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                first = min([each.lineno, *(found.lineno for found in each.decorator_list)])
                yield Function(f"{prefix}{each.name}", first), each
            case ast.ClassDef():
                yield from _functions(each, f"{prefix}{each.name}.")


def _changed(
    owner: ast.AST | list[ast.AST] | list[ast.stmt],
    key: str | int,
    node: ast.AST,
    function: Function,
    lines: tuple[int, int],
) -> Iterator[_Place]:
    """Yield the changes of a node, then those of what it contains; `owner` has it as `key`."""
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.arguments):
        return
    if isinstance(node, ast.stmt):
        lines = _own_lines(node)
    line = getattr(node, "lineno", lines[0])
    for replacement in [*_replacements(node), *_negated(owner, key, node)]:

        def apply(new: ast.AST = replacement) -> None:
            if isinstance(owner, list):
                owner[key] = new  # type: ignore[call-overload]
            else:
                setattr(owner, str(key), new)

        told = f"`{_shown(node)}` → `{_shown(replacement)}`"
        yield _Place(function, line, lines, told, apply)
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        if isinstance(value, list):
            of_filter = _Filters(value) if name == "ifs" else value
            for position, each in enumerate(value):
                if isinstance(each, ast.AST):
                    yield from _changed(of_filter, position, each, function, lines)
        elif isinstance(value, ast.AST):
            yield from _changed(node, name, value, function, lines)


class _Filters(list[ast.AST]):
    """Conditions of a comprehension, which changes are written through to."""

    def __init__(self, conditions: list[ast.AST]) -> None:
        super().__init__(conditions)
        self._conditions = conditions

    def __setitem__(self, key: object, new: object) -> None:
        self._conditions[key] = new  # type: ignore[call-overload]


def _own_lines(statement: ast.stmt) -> tuple[int, int]:
    last = statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if body:
        first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
        last = max(statement.lineno, first.lineno - 1)
    return statement.lineno, last


def _negated(owner: object, key: str | int, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the negation of a condition that is no comparison, whose negation is another one."""
    is_test = isinstance(owner, ast.If | ast.IfExp) and key == "test"
    if not (is_test or isinstance(owner, _Filters)) or not isinstance(node, ast.expr):
        return
    is_comparison = isinstance(node, ast.Compare) and len(node.ops) == 1
    if not is_comparison and not isinstance(node, ast.UnaryOp):
        yield ast.copy_location(ast.UnaryOp(ast.Not(), node), node)


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a mutant where this node stands in the module."""
    match node:
        case ast.Compare():
            yield from _compared(node)
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield ast.copy_location(ast.BoolOp(other, values), node)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _ADDED:
            yield ast.copy_location(ast.BinOp(left, _ADDED[type(op)](), right), node)
        case ast.Constant(bool() as value):
            yield ast.copy_location(ast.Constant(not value), node)
        case ast.Constant(int() | float() as value):
            yield ast.copy_location(ast.Constant(value + 1), node)
            yield ast.copy_location(ast.Constant(value - 1), node)
        case ast.Call(ast.Name(name), args, keywords) if name in _OPPOSITES:
            opposite = ast.copy_location(ast.Name(_OPPOSITES[name], ast.Load()), node)
            yield ast.copy_location(ast.Call(opposite, args, keywords), node)
        case ast.Return(ast.expr() as value) if not _is_none(value):
            # The value stays in the tree, so that the function keeps its free variables.
            never = ast.IfExp(ast.Constant(True), ast.Constant(None), value)
            yield ast.copy_location(ast.Return(ast.copy_location(never, value)), node)
        case ast.stmt() if _is_removed(node):
            yield ast.copy_location(ast.If(ast.Constant(False), [node], []), node)


def _compared(node: ast.Compare) -> Iterator[ast.Compare]:
    for at, op in enumerate(node.ops):
        # Of a chain, such as `a <= b < c`, only one side is moved.
        kinds = [_BOUNDARY] if len(node.ops) > 1 else [_BOUNDARY, _NEGATED]
        for other in (kind[type(op)]() for kind in kinds if type(op) in kind):
            ops = [*node.ops[:at], other, *node.ops[at + 1 :]]
            yield ast.copy_location(ast.Compare(node.left, ops, node.comparators), node)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_removed(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call() | ast.Await()):
            return True
        case ast.Assign(targets):
            return all(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)
    return isinstance(statement, _REMOVED)


def _shown(node: ast.AST) -> str:
    match node:
        case ast.If(ast.Constant(False)):
            return "pass"
        case ast.Return(ast.IfExp(ast.Constant(True))):
            return "return None"
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

"""Expressions in files of worlds: a small grammar of arithmetic and comparisons that can do nothing but compute.

Allowed are numbers, texts, True and False, names of variables, the signs `+ - * / // % **`, comparisons, and, or, not,
`a if c else b`, and the functions abs, exp, log, max, min, round, sqrt. Python's own parser reads the text; every node
of what it finds must be one of these, or the expression is refused. Nothing is ever handed to eval.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levers.errors import InvalidWorldError

MAX_CHARACTERS = 2000
"""The longest expression."""
MAX_NODES = 500
"""The most operations, names and numbers of one expression."""

Values = NDArray[Any]

_OPERATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "max": lambda *values: reduce(np.maximum, values),
    "min": lambda *values: reduce(np.minimum, values),
    "round": np.rint,
    "sqrt": np.sqrt,
}
_SEVERAL = ("max", "min")  # functions of two or more numbers; the others take one


@dataclass(frozen=True)
class Expression:
    """A parsed expression over named variables.

    >>> gain = Expression.parse("2 * (heat > 210) + 0.5 * (steam == 'on')")
    >>> gain.names
    ('heat', 'steam')
    >>> gain.evaluate({"heat": np.array([200.0, 220.0]), "steam": np.array(["on", "off"])}).tolist()
    [0.5, 2.0]
    >>> Expression.parse("__import__('os')")
    Traceback (most recent call last):
    levers.errors.InvalidWorldError: "__import__('os')": only abs, exp, log, max, min, round, sqrt can be called
    """

    text: str
    tree: ast.expr

    @classmethod
    def parse(cls, text: object) -> "Expression":
        """Read an expression; anything outside the grammar is refused."""
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_CHARACTERS:
            raise InvalidWorldError(f"an expression is a text of 1 to {MAX_CHARACTERS} characters, not {text!r:.60}")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InvalidWorldError(f"{text!r} is not an expression: {error}") from None
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise InvalidWorldError(f"{text!r:.60}... has more than {MAX_NODES} parts; split it into tables")
        try:
            _check(tree)
        except InvalidWorldError as error:
            raise InvalidWorldError(f"{text!r}: {error}") from None
        return cls(text.strip(), tree)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that it reads, each once, in order."""
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        found = (node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and id(node) not in called)
        return tuple(sorted(set(found)))

    @property
    def compared(self) -> tuple[tuple[str, str], ...]:
        """Variables with the texts that they are compared with: a text that is no level is a misspelling.

        >>> Expression.parse("steam == 'on' and heat > 3").compared
        (('steam', 'on'),)
        """
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Compare):
                sides = (node.left, *node.comparators)
                names = [side.id for side in sides if isinstance(side, ast.Name)]
                texts = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
                found += [(name, text) for name in names for text in texts]
        return tuple(found)

    def evaluate(self, values: Mapping[str, Values]) -> Values:
        """The result for each row, given the rows' values of each variable."""
        with np.errstate(all="ignore"):  # what is not finite is refused below
            try:
                result = np.asarray(_evaluate(self.tree, values))
            except TypeError:
                raise InvalidWorldError(f"{self.text!r} mixes texts and numbers; texts can only be compared") from None
        if result.dtype.kind in "fc" and (result.dtype.kind == "c" or not np.isfinite(result).all()):
            raise InvalidWorldError(f"{self.text!r} is not a finite number for all values of what it reads")
        n_rows = max((len(column) for column in values.values()), default=1)
        return np.broadcast_to(result, (n_rows,)) if result.ndim == 0 else result

    def addends(self) -> "tuple[Expression, ...]":
        """The parts of a sum, each with its sign.

        >>> [part.text for part in Expression.parse("2 * a + b * c - 1").addends()]
        ['2 * a', 'b * c', '-1']
        """
        parts, todo = list[ast.expr](), [(self.tree, False)]
        while todo:
            node, minus = todo.pop(0)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
                todo[:0] = [(node.left, minus), (node.right, minus != isinstance(node.op, ast.Sub))]
            else:
                parts.append(ast.UnaryOp(ast.USub(), node) if minus else node)
        return tuple(Expression(ast.unparse(part), part) for part in parts)


def _check(node: ast.AST) -> None:
    """Refuse whatever is not in the grammar."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()) | ast.Name():
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()) | ast.BoolOp() | ast.IfExp():
            pass
        case ast.BinOp() if type(node.op) in _OPERATIONS:
            pass
        case ast.Compare() if all(type(op) in _COMPARISONS for op in node.ops):
            pass
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            if len(arguments) < 2 if name in _SEVERAL else len(arguments) != 1:
                raise InvalidWorldError(f"{name} takes {'two or more numbers' if name in _SEVERAL else 'one number'}")
            for argument in arguments:
                _check(argument)
            return
        case ast.Call():
            raise InvalidWorldError(f"only {', '.join(sorted(_FUNCTIONS))} can be called")
        case _:
            raise InvalidWorldError(
                f"{ast.unparse(node)!r} is not allowed; use arithmetic, comparisons, and, or, not, 'a if c else b'"
            )
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child)


def _evaluate(node: ast.expr, values: Mapping[str, Values]) -> Any:
    match node:
        case ast.Constant(value=value):
            # a float, not Python's unbounded integer: 9**9**9 is infinite and refused, and takes no time
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=operation, operand=inner):
            operand = _evaluate(inner, values)
            if isinstance(operation, ast.Not):
                return np.logical_not(operand)
            number = np.asarray(operand) * 1.0
            return -number if isinstance(operation, ast.USub) else number
        case ast.BinOp(left=left, op=arithmetic, right=right):
            first, second = (np.asarray(_evaluate(side, values)) * 1.0 for side in (left, right))
            return _OPERATIONS[type(arithmetic)](first, second)
        case ast.BoolOp(op=ast.And(), values=parts):
            return reduce(np.logical_and, [_evaluate(part, values) for part in parts])
        case ast.BoolOp(values=parts):
            return reduce(np.logical_or, [_evaluate(part, values) for part in parts])
        case ast.Compare(left=left, ops=comparisons, comparators=rights):
            sides = [_evaluate(side, values) for side in (left, *rights)]
            pairs = zip(comparisons, sides, sides[1:], strict=False)
            return reduce(np.logical_and, [_COMPARISONS[type(op)](np.asarray(a), np.asarray(b)) for op, a, b in pairs])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return np.where(*(_evaluate(part, values) for part in (test, body, orelse)))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(np.asarray(_evaluate(part, values)) * 1.0 for part in arguments))
    raise AssertionError(f"{type(node).__name__} passed the check of the grammar")

"""Worlds from files: a TOML file with nodes, tables or expressions, an outcome and its noise; a BIF network.

docs/worlds.md shows the format. Wrong files get one clear sentence with the node's name.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levers.core.space import Codes, Factor, Space
from levers.core.validation import check_choice
from levers.errors import InvalidSpaceError, InvalidWorldError, LeversError
from levers.worlds.expressions import Expression, Values
from levers.worlds.functions import identifiers
from levers.worlds.mechanisms import Computed, Mechanism, Table, table_rows
from levers.worlds.networks import read_bif
from levers.worlds.outcome import (
    BERNOULLI,
    NOISES,
    AdditiveOutcome,
    BernoulliOutcome,
    BinaryOutcome,
    Noise,
    Outcome,
    TableOutcome,
)
from levers.worlds.potentials import configurations
from levers.worlds.scm import OUTCOME, Hidden, World

MAX_BYTES = 10_000_000
"""The largest file that is read."""

_NODE_KEYS = {"levels", "hidden", "parents", "table", "probabilities", "expression", "bins"}
_OUTCOME_KEYS = {"effects", "tables", "expression", "base", "noise", "noise_sd"}


def load_world(path: str | Path, outcome: str | None = None) -> World:
    """Read a world from a file: `.toml`, or a `.bif` network (`.bif.gz` too), of which `outcome` names a node.

    >>> import tempfile
    >>> text = '''
    ... [nodes.heat]
    ... levels = [200, 220, 240]
    ... [outcome]
    ... expression = "2 * (heat == 220)"
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "oven.toml").write_text(text)
    ...     world = load_world(Path(folder) / "oven.toml")
    >>> from levers.worlds.scm import best_assignment
    >>> dict(best_assignment(world))
    {'heat': 220}
    """
    file = Path(path)
    name = file.name.lower()
    if not name.endswith((".toml", ".bif", ".bif.gz")):
        raise InvalidWorldError(f"a world is read from a .toml or a .bif file, not from {file.name!r}")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidWorldError(f"{file.name} is larger than the {MAX_BYTES:,} bytes that are read")
        content = file.read_bytes()
    except OSError as error:
        raise InvalidWorldError(f"{file} cannot be read: {error.strerror or error}") from None
    if not name.endswith(".toml"):
        return read_bif(content, outcome)
    if outcome is not None:
        raise InvalidWorldError(f"a TOML file says itself what its outcome is; leave outcome={outcome!r} out")
    try:
        return world_from_text(content.decode())
    except UnicodeDecodeError:
        raise InvalidWorldError(f"{file.name} is not text in UTF-8") from None


def world_from_text(text: str) -> World:
    """The world that a text in TOML describes.

    >>> world = world_from_text('''
    ... [nodes.coin]
    ... hidden = true
    ... levels = ["heads", "tails"]
    ... [nodes.X]
    ... levels = ["heads", "tails"]
    ... expression = "coin"
    ... [outcome]
    ... expression = "X == coin"
    ... noise_sd = 0.1
    ... ''')
    >>> from levers.worlds.scm import best_assignment
    >>> best_assignment(world).free
    ('X',)
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidWorldError(f"the file is not TOML: {error}") from None
    if unknown := sorted(set(content) - {"nodes", "outcome"}):
        raise InvalidWorldError(f"a world has [nodes.NAME] and [outcome], not {', '.join(map(repr, unknown))}")
    nodes, outcome = content.get("nodes"), content.get("outcome")
    if not isinstance(nodes, dict) or not nodes:
        raise InvalidWorldError("the file has no nodes; begin with [nodes.heat] and levels = [200, 220]")
    if not isinstance(outcome, dict):
        raise InvalidWorldError("the file has no [outcome]; give it effects, tables or an expression")
    return _Builder(nodes).world(outcome)


class _Builder:
    """The nodes of a file, factors first and hidden ones after them, as a world numbers them."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        for name, node in nodes.items():
            _check_table(f"node {name!r}", node, _NODE_KEYS)
            if not isinstance(node.get("hidden", False), bool):
                raise InvalidWorldError(f"node {name!r}: hidden is true or false, not {node['hidden']!r}")
            if name == OUTCOME:
                raise InvalidWorldError(f"no node may be called {OUTCOME!r}: that is the outcome, in [outcome]")
        seen = {name: node for name, node in nodes.items() if not node.get("hidden", False)}
        unseen = {name: node for name, node in nodes.items() if node.get("hidden", False)}
        if not seen:
            raise InvalidWorldError("all nodes are hidden; at least one must be a factor")
        self.nodes = {**seen, **unseen}
        self.variables = tuple(_variable(name, node) for name, node in self.nodes.items())
        self.n_factors = len(seen)
        self.names = tuple(self.nodes)
        self.sizes = tuple(variable.n_levels for variable in self.variables)
        self.places = identifiers(self.names)

    def world(self, outcome: Mapping[str, Any]) -> World:
        mechanisms = []
        for k, (name, node) in enumerate(self.nodes.items()):
            try:
                mechanisms.append(self.mechanism(k, node))
            except LeversError as error:
                raise InvalidWorldError(f"node {name!r}: {error}") from None
        try:
            made = self.outcome(outcome)
        except LeversError as error:
            raise InvalidWorldError(f"the outcome: {error}") from None
        hidden = [Hidden(self.names[k], self.sizes[k], mechanisms[k]) for k in range(self.n_factors, len(self.names))]
        return World(Space(self.variables[: self.n_factors]), mechanisms[: self.n_factors], made, hidden)

    def position(self, name: object) -> int:
        if not isinstance(name, str) or name not in self.names:
            raise InvalidWorldError(f"there is no node {name!r}; the nodes are {', '.join(self.names)}")
        return self.names.index(name)

    def mechanism(self, k: int, node: Mapping[str, Any]) -> Mechanism:
        given = [key for key in ("table", "probabilities", "expression") if key in node]
        if len(given) > 1:
            raise InvalidWorldError(f"it has {' and '.join(given)}; give one of them")
        size = self.sizes[k]
        if not given:
            if "parents" in node:
                raise InvalidWorldError("it has parents, so it needs a table or an expression")
            return Table(np.full((1, size), 1.0 / size))
        if given == ["table"]:
            return self.table(size, node)
        if given == ["probabilities"]:
            return self.probabilities(size, node)
        return self.computed(k, node)

    def table(self, size: int, node: Mapping[str, Any]) -> Table:
        """A table of numbers: a row for each configuration of the parents, the last parent varying fastest."""
        parents = node.get("parents", [])
        if not isinstance(parents, list):
            raise InvalidWorldError(f"parents is a list of names, not {parents!r}")
        bins = None
        if OUTCOME in parents:
            if parents[-1] != OUTCOME or parents.count(OUTCOME) > 1:
                raise InvalidWorldError(f"the outcome {OUTCOME!r} must be the last parent of a table")
            bins, parents = _bins(node), parents[:-1]
        elif "bins" in node:
            raise InvalidWorldError(f"bins are for a table whose last parent is the outcome, {OUTCOME!r}")
        read = tuple(self.position(name) for name in parents)
        sizes = tuple(self.sizes[p] for p in read)
        cells = _numbers("table", node["table"])
        if cells.size != table_rows(sizes, bins) * size:
            raise InvalidWorldError(
                f"its table needs {table_rows(sizes, bins):,} rows of {size} probabilities, a row for each setting of "
                f"its parents, the last varying fastest; got {cells.size:,} numbers"
            )
        return Table(cells.reshape(-1, size), read, sizes, bins)

    def probabilities(self, size: int, node: Mapping[str, Any]) -> Table:
        """A probability for each level: numbers, or expressions of the parents."""
        given = node["probabilities"]
        if not isinstance(given, list) or len(given) != size:
            raise InvalidWorldError(f"probabilities is a list of {size} numbers or expressions, one for each level")
        parts = [self.expression(str(part) if _is_number(part) else part) for part in given]
        if any(OUTCOME in part.names for part in parts):
            raise InvalidWorldError("probabilities that depend on the outcome are given by a table with bins")
        read = self.parents(node, {name for part in parts for name in part.names})
        sizes = tuple(self.sizes[p] for p in read)
        rows = self.rows(read)
        columns = [np.broadcast_to(part.evaluate(self.values(rows, part)) * 1.0, (len(rows),)) for part in parts]
        return Table(np.stack(columns, axis=1), read, sizes)

    def computed(self, k: int, node: Mapping[str, Any]) -> Mechanism:
        """A level that follows from the parents, or from the outcome too."""
        expression = self.expression(node["expression"])
        read = self.parents(node, set(expression.names))
        if OUTCOME in expression.names:  # not a function inside this one: a world can be sent to another process
            return Computed(self.sizes[k], partial(self.levels_given, k, expression), read, reads_outcome=True)
        rows = self.rows(read)
        found = np.broadcast_to(expression.evaluate(self.values(rows, expression)), (len(rows),))
        codes = _codes(self.variables[k], found, expression)
        return Table(np.eye(self.sizes[k])[codes], read, tuple(self.sizes[p] for p in read))

    def levels_given(self, k: int, expression: Expression, rows: Codes, outcomes: NDArray[np.float64]) -> Codes:
        """The level that follows from rows and their outcomes."""
        known = {**self.values(rows, expression), OUTCOME: outcomes}
        return _codes(self.variables[k], expression.evaluate(known), expression)

    def expression(self, text: object) -> Expression:
        """An expression whose names are nodes, compared with their levels only."""
        expression = Expression.parse(text)
        for word in expression.names:
            if word != OUTCOME and word not in self.places:
                raise InvalidWorldError(
                    f"{expression.text!r} reads {word!r}; there are {', '.join((*self.places, OUTCOME))}"
                )
        for word, label in expression.compared:
            levels = self.variables[self.places[word]].levels if word in self.places else ()
            if label not in levels:
                raise InvalidWorldError(
                    f"{expression.text!r} compares {word} with {label!r}, which is not a level of it"
                )
        return expression

    def parents(self, node: Mapping[str, Any], words: set[str]) -> tuple[int, ...]:
        """The positions that expressions read; parents need not be listed for them, but must agree if they are."""
        read = {self.places[word] for word in words if word != OUTCOME}
        if "parents" in node:
            listed = node["parents"]
            if not isinstance(listed, list):
                raise InvalidWorldError(f"parents is a list of names, not {listed!r}")
            named = {self.position(name) for name in listed if name != OUTCOME}
            if not read <= named or (OUTCOME in words and OUTCOME not in listed):
                missing = [self.names[k] for k in sorted(read - named)] or [OUTCOME]
                raise InvalidWorldError(f"the expression reads {', '.join(missing)}, which its parents do not list")
        return tuple(sorted(read))

    def rows(self, read: Sequence[int]) -> Codes:
        """All configurations of some variables, in rows of all variables."""
        inside = configurations([self.sizes[p] for p in read])
        rows = np.zeros((len(inside), len(self.sizes)), dtype=np.int16)
        rows[:, list(read)] = inside
        return rows

    def values(self, rows: Codes, expression: Expression) -> dict[str, Values]:
        """What an expression reads of rows: levels as numbers, or as texts."""
        words = [word for word in expression.names if word in self.places]
        return {word: _levels(self.variables[self.places[word]])[rows[:, self.places[word]]] for word in words}

    def outcome(self, given: Mapping[str, Any]) -> Outcome:
        _check_table("it", given, _OUTCOME_KEYS)
        kind = given.get("noise", NOISES[0])
        check_choice("noise", kind, (*NOISES, BERNOULLI))
        if kind == BERNOULLI and "noise_sd" in given:
            raise InvalidWorldError("an outcome of 0 or 1 has no noise_sd: its mean says how much it varies")
        noise = Noise() if kind == BERNOULLI else Noise(given.get("noise_sd", 1.0), kind)
        effects = self.effects(given.get("effects", {}))
        tables = self.tables(given)
        if not effects and not tables:
            raise InvalidWorldError("it needs effects, tables or an expression")
        base = given.get("base", 0.0)
        if not _is_number(base):
            raise InvalidWorldError(f"base is a number, not {base!r}")
        if not tables and all(k < self.n_factors for k in effects):
            if kind == BERNOULLI:
                return BernoulliOutcome(effects, float(base))
            if base == 0:
                return AdditiveOutcome(effects, noise)
        for k, values in effects.items():
            tables[(k,)] = tables.get((k,), 0.0) + np.asarray(values)
        tables[()] = tables.get((), 0.0) + np.asarray(float(base))
        mean = TableOutcome(tables, noise)
        return BinaryOutcome(mean) if kind == BERNOULLI else mean

    def effects(self, given: object) -> dict[int, tuple[float, ...]]:
        if not isinstance(given, dict):
            raise InvalidWorldError("effects has a list of numbers for each parent, as heat = [0.0, 1.5, 0.5]")
        effects = {}
        for name, numbers in given.items():
            k = self.position(name)
            values = _numbers(f"effects of {name!r}", numbers)
            if values.shape != (self.sizes[k],):
                raise InvalidWorldError(f"{name!r} has {self.sizes[k]} levels and needs as many effects")
            effects[k] = tuple(values.tolist())
        return effects

    def tables(self, given: Mapping[str, Any]) -> dict[tuple[int, ...], Any]:
        """Tables over several parents, and the parts of an expression, each over what it reads."""
        tables: dict[tuple[int, ...], Any] = {}
        listed = given.get("tables", [])
        if not isinstance(listed, list):
            raise InvalidWorldError("tables are written as [[outcome.tables]], each with parents and values")
        for one in listed:
            _check_table("a table of it", one, {"parents", "values"})
            if not isinstance(one.get("parents"), list) or "values" not in one:
                raise InvalidWorldError("each of its tables needs parents (a list of names) and values")
            scope = tuple(self.position(name) for name in one["parents"])
            shape = tuple(self.sizes[k] for k in scope)
            values = _numbers("values", one["values"])
            if values.size != np.prod(shape, dtype=np.int64) or len(set(scope)) < len(scope):
                raise InvalidWorldError(f"its table over {', '.join(one['parents'])} needs {shape} numbers")
            order = sorted(range(len(scope)), key=scope.__getitem__)
            key = tuple(scope[i] for i in order)
            tables[key] = tables.get(key, 0.0) + values.reshape(shape).transpose(order)
        if "expression" in given:
            whole = self.expression(given["expression"])
            if OUTCOME in whole.names:
                raise InvalidWorldError(f"its expression reads itself, {OUTCOME!r}")
            for part in whole.addends():
                read = tuple(sorted(self.places[word] for word in part.names))
                rows = self.rows(read)
                means = np.broadcast_to(part.evaluate(self.values(rows, part)), (len(rows),))
                if means.dtype.kind not in "bif":
                    raise InvalidWorldError(f"{part.text!r} is not a number")
                tables[read] = tables.get(read, 0.0) + (means * 1.0).reshape([self.sizes[k] for k in read])
        return tables


def _check_table(what: str, given: object, allowed: set[str]) -> None:
    if not isinstance(given, dict):
        raise InvalidWorldError(f"{what} must be a table of settings, not {given!r}")
    if unknown := sorted(set(given) - allowed):
        raise InvalidWorldError(f"{what} has {', '.join(map(repr, unknown))}; known are {', '.join(sorted(allowed))}")


def _variable(name: str, node: Mapping[str, Any]) -> Factor:
    levels = node.get("levels")
    if isinstance(levels, int) and not isinstance(levels, bool):
        raise InvalidWorldError(f"node {name!r}: levels is a list of levels, not their number")
    try:
        return Factor(name, levels if isinstance(levels, list) else [])
    except InvalidSpaceError as error:
        raise InvalidWorldError(f"node {name!r}: {error}") from None


def _levels(variable: Factor) -> Values:
    """Levels as an array: numbers where all are, texts where all are, else whatever they are."""
    kinds = {type(level) for level in variable.levels}
    if kinds <= {int, float}:
        return np.array(variable.levels, dtype=np.float64)
    return np.array(variable.levels, dtype=None if len(kinds) == 1 else object)


def _codes(variable: Factor, found: Values, expression: Expression) -> Codes:
    """Positions of levels: a text is the level itself, a number the nearest level or, among texts, a position."""
    levels = _levels(variable)
    if found.dtype.kind in "UO" or found.dtype.kind == levels.dtype.kind == "b":
        match = found[:, None] == levels[None, :]
        if not match.any(axis=1).all():
            wrong = found[~match.any(axis=1)][0]
            raise InvalidWorldError(
                f"{expression.text!r} gives {str(wrong)!r}, which is not a level of {variable.name!r}"
            )
        return np.asarray(match.argmax(axis=1), dtype=np.int16)
    if levels.dtype.kind == "f":
        return np.asarray(np.abs(found[:, None] - levels[None, :]).argmin(axis=1), dtype=np.int16)
    codes = np.rint(found * 1.0)
    if codes.size and not 0 <= codes.min() <= codes.max() < variable.n_levels:
        raise InvalidWorldError(
            f"{expression.text!r} gives the positions {codes.min():g} to {codes.max():g}, but {variable.name!r} has "
            f"levels 0 to {variable.n_levels - 1}"
        )
    return codes.astype(np.int16)


def _numbers(what: str, given: object) -> NDArray[np.float64]:
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidWorldError(f"{what} must be lists of numbers, all rows of one length") from None
    if not isinstance(given, list) or not np.isfinite(numbers).all():
        raise InvalidWorldError(f"{what} must be a list of finite numbers")
    return numbers


def _bins(node: Mapping[str, Any]) -> tuple[int, int]:
    bins = node.get("bins")
    whole = isinstance(bins, list) and len(bins) == 2 and all(type(bound) is int for bound in bins)
    if not isinstance(bins, list) or not whole or bins[0] >= bins[1]:
        raise InvalidWorldError(
            "a table that reads the outcome needs bins = [low, high], the whole numbers it is read as"
        )
    return bins[0], bins[1]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))

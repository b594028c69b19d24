"""Which version of a learner made a number: a digest of the code that decides its lists, without its words.

From a class or function the names that it uses lead to other definitions of this package, and these to others. Only
what is reached counts, definition by definition: another learner, or a new function in a shared module, changes
nothing. Comments, docstrings, annotations and the texts of errors do not count either, nor does how code is compiled.
The digest is the same under every version of Python.
"""

import ast
import functools
import hashlib
import importlib.util
import itertools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from steadyrank.evaluation.lab.cells import Cell, Job
from steadyrank.evaluation.lab.trials import KINDS

_NAME = "steadyrank"
_PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "src" / _NAME
_NO_PART = (f"{_NAME}.core.compiling.", f"{_NAME}.core.dispatch.")  # how code is compiled, kept and called
_SAYING = ("view", "describe")
_DIGITS = 12
Definition = tuple[str, str]  # a module and a name in it


class Code:
    """The definitions below a folder that holds the package, this one or another state of it."""

    def __init__(self, package: pathlib.Path = _PACKAGE) -> None:
        self._package = package
        self._read = functools.cache(self._read_module)
        self._links = functools.cache(self._find_links)

    def version(self, module: str, name: str) -> str:
        """Twelve digits that change with what the definition of that name computes."""
        whole = hashlib.sha256()
        for where, what in sorted(self.reached(module, name)):
            nodes = self._definitions(where)[what]
            text = "".join(_dumped(_computing(node) if (where, what) == (module, name) else node) for node in nodes)
            whole.update(f"{where}.{what}:{text}\n".encode())
        return whole.hexdigest()[:_DIGITS]

    def reached(self, module: str, name: str) -> set[Definition]:
        """The definition and those that it names, at any depth; `module.name` must be one."""
        if name not in self._definitions(module):
            raise ValueError(f"{module} defines no {name!r}")
        seen = {(module, name)}
        ahead = list(self._named(module, [_computing(node) for node in self._definitions(module)[name]]))
        while ahead:
            definition = ahead.pop()
            if definition not in seen:
                seen.add(definition)
                ahead += self._links(*definition)
        return seen

    def _find_links(self, module: str, name: str) -> list[Definition]:
        return list(self._named(module, self._definitions(module)[name]))

    def _named(self, module: str, nodes: Iterable[ast.stmt]) -> Iterator[Definition]:
        """The definitions of this package that statements of the module name."""
        for part in itertools.chain.from_iterable(map(ast.walk, nodes)):
            if isinstance(part, ast.Name):
                yield from self._meant(module, part.id)
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):  # such as philox.start
                home = self._imports(module).get(part.value.id)
                yield from self._meant(".".join(home), part.attr) if home else ()

    def _meant(self, module: str, name: str) -> Iterator[Definition]:
        """The definition that a name stands for in a module, wherever it was imported from; none from elsewhere."""
        while name not in self._definitions(module):
            if name not in self._imports(module):
                return
            module, name = self._imports(module)[name]
        yield module, name

    def _definitions(self, module: str) -> dict[str, list[ast.stmt]]:
        return self._read(module)[0]

    def _imports(self, module: str) -> dict[str, Definition]:
        return self._read(module)[1]

    def _read_module(self, module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, Definition]]:
        path = self._path(module)
        if path is None:
            return {}, {}
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        definitions: dict[str, list[ast.stmt]] = {}
        imports: dict[str, Definition] = {}
        for node in _parsed(path.read_bytes()):
            if isinstance(node, ast.ImportFrom):
                home = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                imports |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
            for name in _bound(node):
                definitions.setdefault(name, []).append(node)
        return definitions, imports

    def _path(self, module: str) -> pathlib.Path | None:
        if not f"{module}.".startswith(f"{_NAME}.") or f"{module}.".startswith(_NO_PART):
            return None
        home = self._package.joinpath(*module.split(".")[1:])
        return next((path for path in (home.with_suffix(".py"), home / "__init__.py") if path.is_file()), None)


@functools.cache
def _parsed(text: bytes) -> list[ast.stmt]:
    """The statements of a module that are no part of another, without what computes nothing."""
    stripped = (_Stripped().visit(node) for node in _statements(ast.parse(text).body))
    return [node for node in stripped if node is not None]


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        inner = [part for name in ("body", "orelse", "finalbody") for part in getattr(node, name, ())]
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            yield from _statements(inner)
        else:
            yield node


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


class _Stripped(ast.NodeTransformer):
    """Takes out what computes nothing."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        words = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if words else node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return ast.Raise()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def _computing(node: ast.stmt) -> ast.stmt:
    """A record's class without the methods that only say what was learnt; other statements as they are."""
    if not isinstance(node, ast.ClassDef):
        return node
    body = [part for part in node.body if not isinstance(part, ast.FunctionDef) or part.name not in _SAYING]
    return ast.ClassDef(node.name, node.bases, node.keywords, body, node.decorator_list)


def _dumped(node: Any) -> str:
    """The tree as text, without places and without what is empty: `ast.dump` differs between versions of Python."""
    if isinstance(node, list):
        return f"[{','.join(map(_dumped, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = [(name, getattr(node, name, None)) for name in node._fields]
    return f"{type(node).__name__}({','.join(f'{name}={_dumped(of)}' for name, of in parts if of not in (None, []))})"


def versions_of(jobs: Iterable[Job], code: Code | None = None) -> dict[str, dict[str, str]]:
    """The versions of the `learners` of the jobs, and of what they met: `world`, by name."""
    from steadyrank.adversaries import ALL as ADVERSARIES
    from steadyrank.guards import ALL as GUARDS
    from steadyrank.learners import ALL as LEARNERS
    from steadyrank.simulator.loop import play
    from steadyrank.users import ALL as USERS

    code = code or Code()
    learners: dict[str, Any] = {}
    world: dict[str, Any] = {"play": play.plain}
    for job in jobs:
        if isinstance(job, Cell):
            learners[job.learner] = LEARNERS[job.learner]
            world |= {job.users: USERS[job.users], job.guard: GUARDS[job.guard]}
            world |= {job.adversary: ADVERSARIES[job.adversary]} if job.rate else {}
        else:
            world[job.kind] = KINDS[job.kind]
    return {
        "learners": {name: code.version(of.__module__, of.__name__) for name, of in sorted(learners.items())},
        "world": {name: code.version(of.__module__, of.__name__) for name, of in sorted(world.items())},
    }

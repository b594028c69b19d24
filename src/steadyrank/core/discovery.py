"""Find record classes by name, check them against the contract, and create records with settings."""

import dis
import inspect
import pathlib
from importlib import import_module
from types import ModuleType
from typing import Any

from .contract import HOOKS, METHODS, OPTIONAL, OTHER_NAMES, records_in
from .settings import closest


def discover(package: ModuleType, method: str) -> dict[str, type]:
    """Every record class with `method` defined in a module of `package`, at any depth, by class name."""
    classes = {}
    assert package.__file__ is not None
    folder = pathlib.Path(package.__file__).parent
    for path in sorted(folder.rglob("[a-z]*.py")):
        module = import_module(".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts)))
        for obj in vars(module).values():
            if isinstance(obj, type) and obj.__module__ == module.__name__ and hasattr(obj, method):
                classes[obj.__name__] = obj
    return dict(sorted(classes.items()))


def find_class(kind: str, chosen: str | type, classes: dict[str, type]) -> type:
    """Look up a class by name, or check a given class; an unknown name raises an error with the closest names.

    `kind` is learner, users, adversary or guard. A class that compiled code could not run is refused.
    """
    if isinstance(chosen, type):
        _check_class(kind, chosen)
        return chosen
    if not isinstance(chosen, str) or chosen not in classes:
        raise KeyError(closest(kind, chosen, classes))
    return classes[chosen]


def _check_class(kind: str, cls: type) -> None:
    """Refuse a class without the methods of its kind, with other parameters, or with a reserved name."""
    methods = METHODS[kind]
    if not issubclass(cls, tuple) or not hasattr(cls, "_fields"):
        raise ValueError(f"{cls!r} is no {kind}: it needs to be a NamedTuple with create, {', '.join(methods)}")
    if missing := [name for name in ("create", *methods) if not callable(getattr(cls, name, None))]:
        raise ValueError(f"{cls.__name__} is no {kind}: it lacks {', '.join(missing)} (docs/contract.md)")
    refuse_hook_names(cls)
    for name in methods:
        _refuse_assignment(cls, getattr(cls, name))
    for name in HOOKS:
        own = getattr(cls, name, None)
        expected = name in methods or (kind in OPTIONAL.get(name, ()) and own is not None)
        if not expected and callable(own):
            raise ValueError(
                f"{cls.__name__} has a method {name!r}, which compiled code takes for the one of another kind of "
                f"record; call it something else, such as {OTHER_NAMES[name]!r}"
            )
        if expected and (has := _parameters(own)) != (needs := _parameters(HOOKS[name])):
            raise ValueError(f"{cls.__name__}.{name} takes ({', '.join(has)}); the contract has ({', '.join(needs)})")


def _refuse_assignment(cls: type, method: Any) -> None:
    """Refuse a method that assigns to a field, which a NamedTuple cannot: the compiler's own error does not help."""
    for step in dis.get_instructions(method):
        if step.opname == "STORE_ATTR" and step.argval in cls._fields:  # type: ignore[attr-defined]
            what = f"{cls.__name__}.{method.__name__} assigns to self.{step.argval}"
            cure = f"make it an array, np.zeros(1) in create, and write self.{step.argval}[0]"
            raise ValueError(f"{what}, and fields of a NamedTuple cannot change; {cure} (docs/contract.md)")


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def refuse_hook_names(cls: type) -> None:
    """Refuse a record class with a field named like a contract method: compiled code would call it."""
    for field in cls._fields:  # type: ignore[attr-defined]
        if field in HOOKS:
            raise ValueError(
                f"{cls.__name__} has a field {field!r}, which is the name of a method of the contract; "
                f"call it something else, such as {OTHER_NAMES[field]!r}"
            )


def settings_of(cls: type) -> dict[str, inspect.Parameter]:
    """The settings of a class: the keyword-only parameters of its `create`."""
    parameters = inspect.signature(cls.create).parameters  # type: ignore[attr-defined]
    return {name: p for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}


def make(cls: type, *arguments: Any, settings: dict[str, Any]) -> Any:
    """`cls.create(*arguments, **settings)`, after refusing unknown settings by name."""
    accepted = settings_of(cls)
    for name in settings:
        if name not in accepted:
            has = f"it has {', '.join(accepted)}" if accepted else "it has none"
            raise ValueError(f"{cls.__name__} has no setting {name!r}: {has}")
    record = cls.create(*arguments, **settings)  # type: ignore[attr-defined]
    if not isinstance(record, cls):
        raise ValueError(f"{cls.__name__}.create must return a {cls.__name__}, not {record!r:.80}")
    for part in records_in(record):
        refuse_hook_names(type(part))
    return record

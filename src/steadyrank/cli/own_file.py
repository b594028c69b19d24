"""Classes from a Python file of the user's own."""

import importlib.util
import pathlib
import sys


def classes_in(path: pathlib.Path) -> list[type]:
    """The classes that a Python file defines, in their order there."""
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a file")
    name = f"own_{path.stem}"  # a name of its own: a file called random.py must not take the place of another
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{str(path)!r} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from None
    return [thing for thing in vars(module).values() if isinstance(thing, type) and thing.__module__ == name]


def learners_in(path: pathlib.Path) -> list[type]:
    """The learners that a Python file defines."""
    found = [cls for cls in classes_in(path) if hasattr(cls, "rank") and hasattr(cls, "update")]
    if not found:
        raise ValueError(f"{path} defines no learner: a NamedTuple with create, rank and update")
    return found

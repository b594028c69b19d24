"""Learn good rankings from clicks, even when bots send some of them.

Learners for cascade feedback, a compiled simulator, a laboratory, a ranking service and an audit.

Nothing heavy is imported before it is used: `import steadyrank` loads neither numba nor numpy.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .core.version import __version__ as __version__

if TYPE_CHECKING:
    from .audit import audit as audit
    from .audit import audit_counts as audit_counts
    from .core.compiling.jit import kernel as kernel
    from .core.contract import Problem as Problem
    from .core.contract import Visit as Visit
    from .core.refusals import Refused as Refused
    from .evaluation.profiles import Profile as Profile
    from .evaluation.profiles import profile as profile
    from .evaluation.profiles import profiles as profiles
    from .live import Collection as Collection
    from .live import FeatureSpace as FeatureSpace
    from .live import Ranker as Ranker
    from .live import Rules as Rules
    from .live import features_from as features_from
    from .live import replay as replay
    from .simulator.runs import Run as Run
    from .simulator.simulate import simulate as simulate

__all__ = [
    "Collection",
    "FeatureSpace",
    "Problem",
    "Profile",
    "Ranker",
    "Refused",
    "Rules",
    "Run",
    "Visit",
    "adversaries",
    "audit",
    "audit_counts",
    "features_from",
    "guards",
    "kernel",
    "learners",
    "profile",
    "profiles",
    "replay",
    "simulate",
    "users",
]

_HOME = {
    "Collection": "live",
    "FeatureSpace": "live",
    "Problem": "core.contract",
    "Profile": "evaluation.profiles",
    "Ranker": "live",
    "Rules": "live",
    "Refused": "core.refusals",
    "Run": "simulator.runs",
    "Visit": "core.contract",
    "audit": "audit",
    "audit_counts": "audit",
    "features_from": "live",
    "kernel": "core.compiling.jit",
    "profile": "evaluation.profiles",
    "profiles": "evaluation.profiles",
    "replay": "live",
    "simulate": "simulator.simulate",
}


def learners() -> dict[str, type]:
    """Names and classes of all learners."""
    return dict(import_module(".learners", __name__).ALL)


def users() -> dict[str, type]:
    """Names and classes of all click models."""
    return dict(import_module(".users", __name__).ALL)


def adversaries() -> dict[str, type]:
    """Names and classes of all adversaries."""
    return dict(import_module(".adversaries", __name__).ALL)


def guards() -> dict[str, type]:
    """Names and classes of all guards."""
    return dict(import_module(".guards", __name__).ALL)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _Package(ModuleType):
    """Keeps the module of the same name from replacing a public function.

    Importing `steadyrank.learners` would otherwise replace the function `steadyrank.learners` by its package.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

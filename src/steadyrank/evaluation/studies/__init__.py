"""The studies, one file each: data only."""

import importlib
import pkgutil
from collections.abc import Iterator

from ...core.settings import closest
from ..lab.cells import Study


def _studies() -> Iterator[Study]:
    for module in pkgutil.iter_modules(__path__):
        study = getattr(importlib.import_module(f"{__name__}.{module.name}"), "STUDY", None)
        if study is not None:
            yield study


ALL: dict[str, Study] = {
    study.name: study for study in sorted(_studies(), key=lambda study: (study.place, study.name))
}


def find_studies(names: list[str]) -> list[Study]:
    """The studies with these names; without names, all that run by default. Raises KeyError for unknown names."""
    for name in names:
        if name not in ALL:
            raise KeyError(closest("study", name, ALL))
    return [study for study in ALL.values() if (study.name in names if names else study.default)]

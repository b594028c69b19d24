"""The docs name everything there is, and their code runs."""

import pathlib
import re

import pytest

import steadyrank as sr
from steadyrank.contract import settings_of
from steadyrank.profiles import mappings
from steadyrank.studies import ALL as STUDIES

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_blocks_run(block, capsys, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    name = re.sub(r"\W", "_", tmp_path.name)
    (tmp_path / f"{name}.py").write_text(block)
    __import__(name)
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "names"),
    [("algorithms.md", sr.learners()), ("adversaries.md", sr.adversaries()), ("adversaries.md", sr.users())],
)
def test_every_class_has_its_row(page, names):
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    for name in names:
        assert rows.count(name) == 1, f"{name} has no row in docs/{page}"


def test_every_profile_has_its_row():
    text = (ROOT / "docs" / "data.md").read_text()
    for name in sr.profiles():
        row = re.search(rf"^\| `{name}` \| (\d+) \| (.*?) \| (.*) \|$", text, re.MULTILINE)
        world = sr.profile(name)
        assert row, f"{name} has no row in docs/data.md"
        assert int(row[1]) == world.attraction.size
        assert row[2] in ("one", ", ".join(f"`{mapping}`" for mapping in mappings(name)))
        assert row[3].startswith("modelled") == world.origin.startswith("modelled")


def test_every_study_has_its_row():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "reproducing.md").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`([\w-]+)`", " ".join(rows))) == sorted(STUDIES)


def test_every_setting_is_documented():
    text = (ROOT / "docs" / "algorithms.md").read_text()
    table = text[text.index("## Settings") : text.index("## Readings")]
    for name, cls in sr.learners().items():
        for setting in settings_of(cls):
            rows = [line for line in table.splitlines() if re.match(rf"\| [^|]*`{setting}`", line)]
            assert any(f"`{name}`" in row for row in rows), f"{name}.{setting} is not in docs/algorithms.md"
    text = (ROOT / "docs" / "adversaries.md").read_text()
    for cls in (*sr.adversaries().values(), *sr.users().values()):
        for setting in settings_of(cls):
            assert setting in text, f"{cls.__name__}.{setting} is not in docs/adversaries.md"


def test_every_class_says_what_it_does_and_whether_it_is_live():
    for kind in (sr.learners(), sr.users(), sr.adversaries()):
        for name, cls in kind.items():
            assert cls.__doc__
            assert not cls.__doc__.startswith(f"{name}("), f"{name} has no docstring"
    for name, cls in sr.learners().items():
        assert isinstance(cls.live, bool), name
    for name, cls in sr.adversaries().items():
        assert isinstance(cls.cascade, bool), name


def test_every_dependency_is_explained():
    wanted = set(re.findall(r'"([a-z-]+)[>=<]', (ROOT / "pyproject.toml").read_text())) - {"hatchling"}
    text = (ROOT / "docs" / "dependencies.md").read_text()
    for name in wanted:
        assert re.search(rf"^\| [^|]*\b{name}\b", text, re.MULTILINE), f"{name} is not in docs/dependencies.md"


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_route_and_setting_of_the_service_is_explained():
    from steadyrank.service.api import ROUTES
    from steadyrank.service.events import Config

    text = (ROOT / "docs" / "service.md").read_text()
    for route in ROUTES:
        row = next(
            (line for line in text.splitlines() if line.startswith("|") and f"{route.method} {route.path}`" in line),
            "",
        )
        assert row, f"{route.method} {route.path} is not in docs/service.md"
        assert route.scope in row or route.scope == "public", row
    for name in Config.__struct_fields__:
        assert re.search(rf"^\| [^|]*`{name}`", text, re.MULTILINE), f"{name} is not in docs/service.md"


def test_every_command_is_shown_somewhere():
    from steadyrank.cli import _parser

    text = "".join(page.read_text() for page in PAGES)
    commands = next(a for a in _parser()._actions if a.dest == "command").choices
    for name in commands:
        assert f"steadyrank {name}" in text, f"no page shows `steadyrank {name}`"

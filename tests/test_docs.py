"""The docs name everything there is, and their code runs."""

import contextlib
import importlib
import inspect
import io
import json
import pathlib
import re
import runpy
import shlex
import sys
import tomllib
import unicodedata
import urllib.request
from unittest import mock

import numpy as np
import pytest

import steadyrank as sr
from steadyrank.core.discovery import settings_of
from steadyrank.evaluation.profiles import mappings
from steadyrank.evaluation.studies import ALL as STUDIES

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = r"^ *```(\w*)\n(.*?)^ *```"  # language and lines
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def how(page, block):
    """Long blocks, loops that nothing else compiles, and classes of their own compiled, are for `make soak`."""
    own_loop = page.stem == "your-own-data" and "sr.simulate(" in block
    if own_loop or page.stem in ("readings", "guards", "how-steadyrank-works"):
        return pytest.mark.slow
    return pytest.mark.interpreted if "class " in block or page.stem in ("users", "outcomes") else []


BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}", marks=how(page, block))
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_blocks_run(block, tmp_path):
    name = re.sub(r"\W", "_", tmp_path.name)
    (tmp_path / f"{name}.py").write_text(block)
    found = mock.patch.object(sys, "path", [str(tmp_path), *sys.path])
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(tmp_path), found:
        importlib.invalidate_caches()
        importlib.import_module(name)
    assert out.getvalue()


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("algorithms.md", sr.learners()),
        ("adversaries.md", sr.adversaries()),
        ("users.md", sr.users()),
        ("guards.md", sr.guards()),
    ],
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
    table = (ROOT / "docs" / "learner-settings.md").read_text()
    for name, cls in sr.learners().items():
        for setting in settings_of(cls):
            rows = [line for line in table.splitlines() if re.match(rf"\| [^|]*`{setting}`", line)]
            assert any(f"`{name}`" in row for row in rows), f"{name}.{setting} is not in docs/learner-settings.md"
    for page, classes in (("adversaries.md", sr.adversaries()), ("users.md", sr.users())):
        text = (ROOT / "docs" / page).read_text()
        for name, cls in classes.items():
            for setting in settings_of(cls):
                assert f"`{setting}`" in text, f"{name}.{setting} is not in docs/{page}"
    text = (ROOT / "docs" / "users.md").read_text()
    table, senders = text[text.index("## Settings") : text.index("## Senders")], settings_of(sr.users()["Cascade"])
    for name, cls in sr.users().items():
        for setting in set(settings_of(cls)) - set(senders):
            row = re.search(rf"^\| [^|]*`{setting}`[^|]*\| [^|]*`{name}`", table, re.MULTILINE)
            assert row, f"{name}.{setting} has no row in docs/users.md"
    text = (ROOT / "docs" / "guards.md").read_text()
    for name, cls in sr.guards().items():
        for setting in settings_of(cls):
            row = re.search(rf"^\| [^|]*`{setting}`[^|]*\| [^|]*`{name}`", text, re.MULTILINE)
            assert row, f"{name}.{setting} is not in docs/guards.md"


def test_every_parameter_of_a_ranker_and_of_a_simulation_is_explained():
    text = (ROOT / "docs" / "live.md").read_text() + sr.Ranker.__doc__
    for name in list(inspect.signature(sr.Ranker.__init__).parameters)[1:]:
        assert re.search(rf"`{name}`|\b{name}=", text), f"{name} of Ranker is not explained"
    words = "".join(page.read_text() for page in PAGES) + sr.simulate.__doc__
    for name in inspect.signature(sr.simulate).parameters:
        assert re.search(rf"`{name}`|\b{name}=", words), f"{name} of simulate is not explained"


def test_every_variable_of_the_environment_is_explained():
    names = set()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").glob("*.py")]:
        names |= set(re.findall(r"""["'](STEADYRANK_[A-Z]+)["']""", path.read_text()))
    assert "STEADYRANK_STORE" in names
    text = "".join(page.read_text() for page in [*PAGES, *OTHERS])
    assert not {name for name in names if name not in text}


def test_every_class_says_what_it_does_and_whether_it_is_live():
    for kind in (sr.learners(), sr.users(), sr.adversaries(), sr.guards()):
        for name, cls in kind.items():
            assert cls.__doc__
            assert not cls.__doc__.startswith(f"{name}("), f"{name} has no docstring"
    for name, cls in sr.learners().items():
        assert isinstance(cls.live, bool), name
    for name, cls in sr.adversaries().items():
        assert isinstance(cls.cascade, bool), name


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    text = (ROOT / "docs" / "dependencies.md").read_text()
    for name in {re.match(r"[\w-]+", need)[0] for need in needs} - {"steadyrank"}:
        assert re.search(rf"^\| [^|]*\b{name}\b", text, re.MULTILINE), f"{name} is not in docs/dependencies.md"
    for page in PAGES:
        lines = "".join(re.findall(r"^.*pip install.*$", page.read_text(), re.MULTILINE))
        shown = re.findall(r"'([\w\[\]-]+[<>=][^']*)'", lines)
        assert set(shown) <= set(needs), f"{page.name} asks for other versions than pyproject.toml"


def test_code_on_pages_is_narrow_enough_to_be_read_without_scrolling():
    for page in PAGES:
        for _, block in re.findall(FENCE, page.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.splitlines():
                whole = re.match(r"\d+ \d+ \* \* \* ", line)  # a line of cron cannot be broken
                assert len(line) <= 100 or whole, f"{page.name}: {len(line)} characters: {line}"


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(page):
    """As the site and code hosts make them of headings."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_links_lead_somewhere():
    found = 0
    for page in [*PAGES, *OTHERS]:
        for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", without_code(page.read_text())):
            if "://" in target:
                continue
            found += 1
            led = page.parent / target if target else page
            assert led.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(led), f"{page.name} links to {target}#{anchor}"
    assert found > 100


@pytest.mark.parametrize("start", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=["README", "index"])
def test_every_page_is_named_where_readers_start(start):
    links = re.findall(r"\]\(([^)#]*)", without_code(start.read_text()))
    linked = {(start.parent / target).resolve() for target in links if "://" not in target}
    assert {page.name for page in PAGES if page.stem not in ("README", "index")} <= {page.name for page in linked}


def test_no_page_takes_much_longer_than_ten_minutes():
    """A page that does is two pages. The bibliography is a list to look things up in."""
    namespace = runpy.run_path(str(ROOT / "docs" / "readability.py"))
    for page in PAGES:
        text, tables = namespace["prose"](page.read_text(encoding="utf-8"))
        words = len(namespace["_WORD"].findall(text + tables))
        assert words < 2_100 or page.stem == "bibliography", f"{page.name}: {words} words"


def test_every_route_and_setting_of_the_service_is_explained():
    from steadyrank.service.board.config import Config
    from steadyrank.service.http.routes import ROUTES

    pages = ("service-reference", "collections-reference", "service-settings")
    text = "".join((ROOT / "docs" / f"{page}.md").read_text() for page in pages)
    for route in ROUTES:
        row = next(
            (line for line in text.splitlines() if line.startswith("|") and f"{route.method} {route.path}`" in line),
            "",
        )
        assert row, f"{route.method} {route.path} is in none of {pages}"
        assert route.scope in row or route.scope == "public", row
    for name in Config.__struct_fields__:
        assert re.search(rf"^\| [^|]*`{name}`", text, re.MULTILINE), f"{name} is in none of {pages}"


def test_every_limit_of_the_server_is_explained_with_its_default():
    from steadyrank.service.http.limits import Limits

    text = (ROOT / "docs" / "capacity.md").read_text()
    for name, value in Limits()._asdict().items():
        assert re.search(rf"^\| `--{name.replace('_', '-')}` \| {int(value)} \|", text, re.MULTILINE), name


def test_every_line_about_attackers_names_a_test_that_there_is():
    rows = re.findall(r"^\| can(?:not)? \|.*$", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"(test_\w+\.py)::(test_\w+)", row.rpartition("<!--")[2])
        assert named, row
        for file, test in named:
            assert re.search(rf"def {test}\(", (ROOT / "tests" / file).read_text()), f"{file}::{test}"


def test_every_command_is_shown_somewhere():
    from steadyrank.cli import _parser

    text = "".join(page.read_text() for page in PAGES)
    commands = next(a for a in _parser()._actions if a.dest == "command").choices
    for name in commands:
        assert f"steadyrank {name}" in text, f"no page shows `steadyrank {name}`"


def shown_commands():
    """Commands of steadyrank in the pages: lines of blocks, and what stands between backticks."""
    for page in [*PAGES, *OTHERS]:
        text = page.read_text()
        for language, block in re.findall(FENCE, text, re.DOTALL | re.MULTILINE):
            if language:
                continue
            lines = re.sub(r"\\\n", " ", block).splitlines()
            yield from ((page.name, line.strip()) for line in lines)
        yield from ((page.name, line) for line in re.findall(r"^    (steadyrank .*)$", text, re.MULTILINE))
        prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
        yield from ((page.name, re.sub(r"\s+", " ", span)) for span in re.findall(r"`([^`]+)`", prose))


def test_every_command_shown_is_one(capsys):
    from steadyrank.cli import _parser

    commands = next(a for a in _parser()._actions if a.dest == "command").choices
    names = [[name] for name in commands] + [["profile", "build"]]
    tried = 0
    for page, line in shown_commands():
        found = re.match(r"(?:\S*/bin/)?steadyrank (?!snapshot)(.+)", line)
        if not found or "..." in found[1].split("#")[0].replace("://...", ""):
            continue
        words = shlex.split(found[1], comments=True)
        if words in names:
            continue  # the name of a command, without what it needs
        tried += 1
        code = 0
        try:
            _parser().parse_args(words)
        except SystemExit as end:
            code = end.code
        assert code == 0, f"{page} shows `{line}`: {capsys.readouterr().err}"
    assert tried > 40


def test_every_target_of_make_is_explained_and_every_one_shown_exists():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split())
    assert targets == set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    explained = set(re.findall(r'^\t@echo "make ([\w-]+) ', text, re.MULTILINE))
    assert explained == targets - {"help"}
    pages = "\n".join(page.read_text() for page in [*PAGES, *OTHERS])
    shown = set()
    for words in re.findall(r"(?:^|`)make ((?:[a-z-]+ ?)+)(?=`| +#|$)", pages, re.MULTILINE):
        shown |= set(words.split())
    assert shown <= targets, shown - targets
    assert shown >= {"reproduce", "test", "check", "docs", "dist", "bench", "soak", "demo", "setup", "help"}


def test_every_picture_has_its_command():
    made = "".join((ROOT / "docs" / f"make_{name}.py").read_text() for name in ("images", "screenshots", "animation"))
    shown = set()
    for page in PAGES:
        text = page.read_text()
        for name in re.findall(r"!\[[^\]]+\]\((?:docs/)?images/([\w.-]+)\)", text):
            shown.add(name)
            command = r"python\s+(docs/make_\w+|bench/\w+)\.py|make (bench|demo|reproduce)"
            assert re.search(command, text), f"{page.name} shows {name} without the command that makes it"
            stem = name.removeprefix("dashboard-").rpartition(".")[0]
            assert f'"{stem}"' in made, f"no script makes docs/images/{name}"
    assert shown == {path.name for path in (ROOT / "docs" / "images").iterdir()}


def test_every_public_name_is_on_the_api_page():
    import dataclasses

    from steadyrank import client, testing
    from steadyrank.simulator.runs import Run

    text = (ROOT / "docs" / "api.md").read_text()
    entries = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)}
    kinds = re.search(r"^### (learners, adversaries, users, guards)$", text, re.MULTILINE)
    entries |= set(kinds[1].split(", "))
    own = {name for name, thing in vars(client).items() if getattr(thing, "__module__", "") == client.__name__}
    public = {*sr.__all__, *testing.__all__, *(name for name in own if not name.startswith("_"))}
    assert public <= entries, public - entries
    for record in ([field.name for field in dataclasses.fields(Run)], sr.Problem._fields):
        for name in record:
            assert re.search(rf"^\| [^|]*`{name}`", text, re.MULTILINE), f"{name} is not in docs/api.md"


def test_every_public_thing_has_a_docstring():
    from steadyrank import client, testing

    things = [getattr(sr, name) for name in sr.__all__] + [getattr(testing, name) for name in testing.__all__]
    for thing in [*things, client.Client, client.Ranking]:
        assert thing.__doc__, thing
        assert not thing.__doc__.startswith(f"{thing.__name__}("), f"{thing.__name__} has no docstring of its own"
        for name, part in vars(thing).items() if isinstance(thing, type) else ():
            if callable(part) and not name.startswith("_") and part.__module__.startswith("steadyrank"):
                assert part.__doc__, f"{thing.__name__}.{name} has no docstring"


def test_every_folder_is_in_the_layout():
    text = (ROOT / "docs" / "layout.md").read_text()
    source = ROOT / "src" / "steadyrank"
    doors = [path.name for path in source.glob("*.py")]
    folders = [f"{path.name}/" for path in source.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    for name in [*doors, *folders]:
        assert re.search(rf"^ +{re.escape(name)} ", text, re.MULTILINE), f"{name} is not in docs/layout.md"


def test_the_glossary_has_thirty_words_at_most():
    text = (ROOT / "docs" / "layout.md").read_text()
    glossary = text.partition("## Words")[2].partition("\n## ")[0]
    words = [word for row in re.findall(r"^\| ([a-z, ]+) \|", glossary, re.MULTILINE) for word in row.split(", ")]
    assert len(set(words)) == len(words)
    assert 20 <= len(words) - 1 <= 30  # beside the head of the table


def test_every_extra_is_explained():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = "".join(page.read_text() for page in PAGES)
    assert set(extras) == {"service", "postgres", "kafka", "redis", "otel", "ray", "report", "release", "dev"}
    for extra in set(extras) - {"release", "dev"}:  # those two are for work on the project
        assert f"pip install '.[{extra}]'" in text


def test_the_citation_has_the_version():
    assert f"version: {sr.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert sr.__version__ in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("pages", [["service.md"], ["shadow.md", "comparing.md"]], ids=["service", "shadow"])
def test_the_client_that_a_page_shows_runs(pages, tmp_path):
    from service_tools import Server

    text = "".join((ROOT / "docs" / page).read_text() for page in pages)
    blocks = [block for _, block in re.findall(FENCE, text, re.DOTALL | re.MULTILINE)]
    (block,) = [block for block in blocks if block.startswith("from steadyrank.client")]
    server = Server(f"sqlite:///{tmp_path}/boards.db", tmp_path / "log").wait()
    names = {}
    exec(block.replace('Client("http://127.0.0.1:8080"', f'Client("{server.address}", timeout=10.0'), names)
    with contextlib.closing(names["client"]) as client:
        more = [block for block in blocks if block.startswith("client.")]
        for block in more:
            exec(block, names)
        assert client.board("front")["answers"] == 1 + len(more)
    assert server.stop() == 0


def ask(line, server, impression):
    """What a shown `curl` does, with its own content type; dots stand for the impression of the list before."""
    words = shlex.split(line.replace("...", impression))
    method = words[words.index("-X") + 1] if "-X" in words else "GET"
    address = next(word for word in words if word.startswith("localhost:8080"))
    body = words[words.index("-d") + 1].encode() if "-d" in words else None
    request = urllib.request.Request(address.replace("localhost:8080", server.address), body, method=method)
    request.add_header("content-type", "application/x-www-form-urlencoded")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_the_first_requests_shown_are_answered(tmp_path):
    from service_tools import Server

    text = (ROOT / "docs" / "service.md").read_text()
    block = next(b for _, b in re.findall(FENCE, text, re.DOTALL | re.MULTILINE) if b.startswith("curl"))
    server = Server(f"sqlite:///{tmp_path}/boards.db", tmp_path / "log").wait()
    impression, answers = "", []
    for line in re.sub(r"\\\n *", "", block).splitlines():
        answers.append(ask(line, server, impression))
        impression = answers[-1].get("impression", impression)
    assert "fig" in answers[1]["items"]
    assert answers[2]["outcome"] == "learnt"
    assert sum(item["clicks"] for item in answers[3]["items"]) == 1
    assert server.stop() == 0


def test_every_citation_in_the_code_is_in_the_bibliography():
    def plain(text):
        letters = unicodedata.normalize("NFKD", text)
        return "".join(letter for letter in letters if not unicodedata.combining(letter))

    rows = plain((ROOT / "docs" / "bibliography.md").read_text()).splitlines()
    cited = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = re.sub(r"\s+", " ", plain(path.read_text()))
        named = re.findall(r"\b([A-Z][A-Za-z]+)(?: et al\.)?,? \(?((?:19|20)\d\d)\b", text)
        named += [("arXiv", number) for number in re.findall(r"arXiv (\d+\.\d+)", text)]
        cited |= {(*one, path.name) for one in named}
    assert len(cited) > 80
    for name, number, file in sorted(cited):
        assert any(name in row and number in row and file in row for row in rows), f"{file}: {name} {number}"


def test_pages_agree_on_which_guard_is_the_default():
    from steadyrank.live import Ranker
    from steadyrank.service.board.config import Config
    from steadyrank.simulator.simulate import simulate

    here = {inspect.signature(each).parameters["guard"].default for each in (Ranker, simulate)}
    assert (here, Config().guard) == ({"Anyone"}, "ClientTrust")
    pages = ("guards", "live", "service-settings")
    guards, live, service = ((ROOT / "docs" / f"{name}.md").read_text() for name in pages)
    assert "The default is `Anyone` in `sr.Ranker` and in simulations, and `ClientTrust` on boards" in guards
    assert 'Everybody\'s (`guard="Anyone"`), unless' in live
    assert "| `guard`, `guard_settings` | `ClientTrust` |" in service


def test_the_recipe_for_a_web_servers_log_makes_a_log_that_is_read(tmp_path):
    import subprocess

    from steadyrank.click_logs.click_log import read

    text = (ROOT / "docs" / "production.md").read_text()
    (recipe,) = [block for _, block in re.findall(FENCE, text, re.DOTALL | re.MULTILINE) if block.startswith("awk")]
    lines = [
        *("1.5 r1 v7 fig|apple|kiwi - -", "2.5 r2 - fig|kiwi - -", "3.5 r3 v7 - r1 apple", "4.5 r4 v7 - r1 fig"),
        *("5.5 r5 v8 - - -", "6.5 r6 v9 apple - -"),
    ]
    (tmp_path / "lists.log").write_text("\n".join(lines) + "\n")
    subprocess.run(["sh", "-c", recipe], cwd=tmp_path, check=True)
    assert (tmp_path / "clicks.csv").read_text().splitlines() == [
        *("time,client,items,clicked_item", "1.5,v7,fig|apple|kiwi,apple", "2.5,,fig|kiwi,", "6.5,v9,apple,"),
    ]
    log = read([tmp_path / "clicks.csv"], {})
    assert (log.impressions.n, log.broken, int(log.impressions.bits.sum())) == (3, 0, 1)


def path_log(path, lists=400):
    """A click log such as the path to production begins with: who saw what, and the first click."""
    rng, items = np.random.default_rng(0), np.array(["apple", "banana", "cherry", "fig", "kiwi", "plum"])
    lines = ["time,client,items,clicked_item"]
    for k in range(lists):
        shown = rng.permutation(6)[:4]
        clicked = next((items[i] for i in shown if rng.random() < 0.4 / (1 + i)), "")
        lines.append(f"{1_700_000_000 + 60 * k},v{k % 50},{'|'.join(items[shown])},{clicked}")
    path.write_text("\n".join(lines) + "\n")


def test_every_command_of_the_path_to_production_runs_in_order(tmp_path, capsys):
    from service_tools import Server
    from steadyrank.cli import main

    text = (ROOT / "docs" / "production.md").read_text()
    blocks = [block for _, block in re.findall(FENCE, text, re.DOTALL | re.MULTILINE)]
    of_nginx = ("log_format", "awk")  # the recipe has a test of its own
    audit, clean, history, client, feedback, compare, mix, mixed, tenth = (
        block for block in blocks if not block.startswith(of_nginx)
    )
    path_log(tmp_path / "clicks.csv")
    server = Server(f"sqlite:///{tmp_path}/boards.db", tmp_path / "log").wait()
    names, visits = {}, 0

    def visit(*blocks):
        nonlocal visits
        visits += 1
        names.update({"visitor": f"cookie {visits}", "request_id": f"page {visits}"})
        names.update({"items": ["apple", "fig", "kiwi", "plum"], "item": "fig", "shown": None})
        for block in blocks:
            exec(block, names)
        assert names["impression"]  # of the service, which was not away

    with contextlib.chdir(tmp_path):
        assert main(shlex.split(audit)[1:]) == 0
        assert main(shlex.split(clean)[1:]) == 0
        serve, past = history.splitlines()
        assert serve.startswith("steadyrank serve")  # it is the one that runs
        assert main([*shlex.split(past)[1:], "--server", server.address]) == 0
    assert "400 lists learnt from" in capsys.readouterr().out
    client = client.replace('"http://127.0.0.1:8080", timeout=0.2', f'"{server.address}", timeout=10.0')
    visit(client)
    ask("curl -X PUT localhost:8080/v1/boards/front -d '{\"settle\": 0}'", server, "")  # no week to wait
    for _ in range(20):
        visit(client.rpartition("\n\n\n")[2], feedback)
    assert ask(compare, server, "")["verdict"]["better"] in ("ours", "open", "theirs")
    ask(mix, server, "")
    for _ in range(5):
        visit(mixed, feedback.replace("item)", "items[0])"))
    chosen = 0
    for _ in range(30):
        visit(tenth)
        chosen += names["shown"] is not None
    assert chosen == 4  # of visitors 27 to 56
    state, mix = (ask(line, server, "") for line in re.findall(r"`(curl (?!-X)[^`]+)`", text))
    assert (state["impressions"], mix["verdict"]) == (visits, "open")
    names["client"].close()
    assert server.stop() == 0

"""What a release needs: version, change log and citation that agree, and files for GitHub that are valid."""

import json
import pathlib
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile

import pytest
from hatchling.builders.sdist import SdistBuilder

ROOT = pathlib.Path(__file__).parent.parent
RELEASE = runpy.run_path(str(ROOT / "deploy" / "release.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCHEMAS = {  # files by the schema that they have to keep to
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "dependabot": ".github/dependabot.yml",
    "citation-file-format": "CITATION.cff",
    "compose-spec": "compose.yml",
}


def complaints(version="1.2.0", changes="## 1.2.0, 2026-11-18\n", citation="version: 1.2.0\n", project=PROJECT):
    return RELEASE["complaints"](version, changes, citation, project)


def test_a_version_that_is_ready():
    assert complaints() == []


def test_what_is_not_ready_is_said():
    (text,) = complaints(changes="## Unreleased (1.2.0)\n")
    assert "'## 1.2.0, YYYY-MM-DD'" in text
    (text,) = complaints(citation="version: 1.1.0\n")
    assert "1.1.0, not 1.2.0" in text
    (text, *_) = complaints(project={"dependencies": ["numba>=0.61,<1", "numpy>=2.0,<3"]})
    assert "==0.60.0, outside of numba>=0.61" in text
    (text, *_) = complaints(project={"dependencies": [], "optional-dependencies": {"x": ["redis>=5", "other>=1"]}})
    assert "no lowest other is tried on Python 3.11" in text


def test_the_lowest_versions_are_tried_on_every_python_that_the_classifiers_name():
    named = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if text.count("::") == 2 and "3." in text}
    assert named <= set(RELEASE["LOWEST"])


def test_the_sdist_has_everything_that_its_tests_read():
    packed = {file.relative_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    read = [path for pattern in SCHEMAS.values() for path in ROOT.glob(pattern)] + [ROOT / ".ci" / "run"]
    assert {str(path.relative_to(ROOT)) for path in read} <= packed


def test_wheels_that_differ_are_told_apart(tmp_path):
    for name, text in (("one", b"1"), ("other", b"2")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("same.py", b"0")
            archive.writestr("a.py", text)
    assert RELEASE["differences"](tmp_path / "one", tmp_path / "other") == "a.py"


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_for_others_are_valid(schema):
    files = sorted(map(str, ROOT.glob(SCHEMAS[schema])))
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_paper_says_what_was_measured():
    """Its figures are those of the evidence, its citations have entries, and it has at most 1,000 words."""
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    headline, reproduce = (
        json.loads((ROOT / "evidence" / f"{name}.json").read_text()) for name in ("headline", "reproduce")
    )
    rows = {row["group"]: row for row in headline["groups"]}
    attacked, honest = rows["attacks in stretches"], rows["honest users"]
    assert f"Under {attacked['cells']} attacks in stretches it has {attacked['mean']:.2f} times the regret" in flat
    assert f"{honest['mean']:.2f} times with honest users ({headline['seeds']} seeds" in flat
    assert f"{len(reproduce['verdicts'])} claims" in flat
    cited = set(re.findall(r"@([a-z]+\d{4}[a-z]+)", text))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), re.MULTILINE))
    assert len(text.split()) <= 1000


def test_workflows_run_what_the_project_has():
    """Each command of a workflow is a target of the Makefile or the script of CI."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ran = [
        line.split("run: ")[1].strip() for line in text.splitlines() if "run: make " in line or "run: .ci/" in line
    ]
    assert ran
    for command in ran:
        assert (ROOT / ".ci" / "run").exists() if command == ".ci/run" else f"\n{command.split()[1]}: " in makefile

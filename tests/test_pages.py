"""Measured tables and sentences of README and docs are those of the files of evidence."""

import importlib.util
import json
import pathlib

import polars as pl
import pytest

from steadyrank.evaluation.report.claims import scorecard
from steadyrank.evaluation.report.sources import MODELLED
from steadyrank.evaluation.studies import ALL

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def numbers():
    spec = importlib.util.spec_from_file_location("write_numbers", ROOT / "docs" / "write_numbers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_say_what_the_evidence_says(numbers):
    evidence = numbers.load_evidence()
    for page in numbers.pages():
        text = page.read_text(encoding="utf-8")
        assert numbers.rewritten(text, evidence) == text, f"{page.name}: run python docs/write_numbers.py"


def test_every_measured_block_stands_on_a_page(numbers):
    text = "".join(page.read_text(encoding="utf-8") for page in numbers.pages())
    for name in numbers.BLOCKS:
        assert f"<!-- measured: {name} -->" in text


def test_evidence_says_where_it_comes_from(numbers):
    for name, content in numbers.load_evidence().items():
        assert content["command"].startswith("steadyrank reproduce"), name
        assert content["seeds"]
        assert content["source"]
        assert set(content["versions"]) == {"steadyrank", "python", "numba", "numpy", "polars"}


def test_the_evidence_has_today_s_claims(numbers):
    """A claim that was added, dropped or renamed makes the counts of the pages wrong until they are measured anew."""
    claims = scorecard({name: pl.DataFrame() for name in ALL}, False, MODELLED)
    measured = numbers.load_evidence()["reproduce"]["verdicts"]
    assert list(measured) == [claim.id for claim in claims]


def test_a_changed_number_and_an_unknown_block_are_noticed(numbers):
    evidence = numbers.load_evidence()
    block = "a\n<!-- measured: scorecard -->\nOf 3 claims all hold.\n<!-- end -->\nb\n"
    new = numbers.rewritten(block, evidence)
    assert new.startswith("a\n<!-- measured: scorecard -->\nOf ")
    assert new.endswith("cannot be tested.\n<!-- end -->\nb\n")
    assert numbers.rewritten(new, evidence) == new
    changed = json.loads(json.dumps(evidence))
    changed["reproduce"]["answer"][0] = "Of 3 claims none cannot be tested."
    assert numbers.rewritten(new, changed) != new
    with pytest.raises(ValueError, match="no measured block is called 'nothing'"):
        numbers.rewritten("<!-- measured: nothing -->\n\n<!-- end -->", evidence)


def test_numbers_are_written_as_the_pages_have_them(numbers):
    assert numbers._bias(0.0801, 0.0812) == "+.080 (.081)"
    assert numbers._bias(-0.0004, 0.0153) == "+.000 (.015)"
    assert numbers._bias(-0.1, 0.1) == "-.100 (.100)"

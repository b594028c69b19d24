"""`steadyrank replay`: a past log through learners, with the weights of a cleaned log as chances."""

import json

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.cli import main

pytestmark = pytest.mark.pure


def log_of(n, weight=None):
    """Lists of a, b and c in turn, of which c is always clicked."""
    names = ["a", "b", "c"]
    lists = [names[k % 3 :] + names[: k % 3] for k in range(n)]
    frame = pl.DataFrame({"items": lists, "clicked": [[int(item == "c") for item in row] for row in lists]})
    return frame if weight is None else frame.with_columns(pl.Series("weight", weight))


@pytest.fixture
def replay(tmp_path, capsys):
    def run(frame, *options):
        frame.write_parquet(tmp_path / "log.parquet")
        code = main(["replay", str(tmp_path / "log.parquet"), "--learner", "CascadeTS", *options])
        return code, capsys.readouterr()

    return run


def test_each_learner_says_what_it_would_show(replay, tmp_path):
    code, said = replay(log_of(300), "--length", "1", "--save", str(tmp_path / "kept"))
    assert (code, said.out) == (0, "300 lists, 100 with a click\nCascadeTS: c\n")  # cut to one place
    assert sr.Ranker.load(tmp_path / "kept").rank().items == ("c",)
    code, said = replay(log_of(300), "--json")
    told = json.loads(said.out)
    assert (told["lists"], told["clicked"], told["left_out"]) == (300, 300, 0)
    assert told["learners"] == [{"learner": "CascadeTS", "items": told["learners"][0]["items"], "doubted": None}]
    assert told["learners"][0]["items"][0] == "c"


def test_a_weight_is_the_chance_to_be_taken(replay):
    weight = np.repeat([1.0, 0.5, 0.0], 200)
    found = [json.loads(replay(log_of(600, weight), "--json", "--seed", seed)[1].out)["lists"] for seed in "001"]
    taken = [200 + int((np.random.default_rng(seed).random(600)[200:400] < 0.5).sum()) for seed in (0, 0, 1)]
    assert found == taken


@pytest.mark.parametrize(
    ("weight", "options", "words"),
    [
        (1.5, [], "a weight is from 0 to 1, not 1.5"),
        (0.0, [], "nothing to replay"),
        (1.0, ["--length", "0"], "--length must be"),
        (1.0, ["--learner", "SteadyRank", "--save", "x"], "keeps one learner"),
        (1.0, ["--of", "front"], "the log has no board 'front'"),
    ],
)
def test_bad_input_is_refused(replay, weight, options, words):
    code, said = replay(log_of(9, np.full(9, weight)), *options)
    assert code == 2
    assert words in said.err


def test_files_with_and_without_weights_are_not_mixed(tmp_path, capsys):
    log_of(9).write_parquet(tmp_path / "one.parquet")
    log_of(9, np.ones(9)).write_parquet(tmp_path / "two.parquet")
    assert main(["replay", str(tmp_path / "one.parquet"), str(tmp_path / "two.parquet")]) == 2
    assert f"{tmp_path}/two.parquet has weights and {tmp_path}/one.parquet has none" in capsys.readouterr().err

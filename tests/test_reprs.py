"""What results say of themselves where they are printed, shown in a notebook or drawn."""

import html.parser

import numpy as np
import polars as pl
import pytest

import steadyrank as sr

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def log():
    """4,000 lists of three; from the 2,001st to the 2,600th everybody clicks an item that nobody liked."""
    rng = np.random.default_rng(3)
    rates = {f"<b>item</b> {k}": 0.5 if k < 2 else 0.05 for k in range(8)}
    lists, clicked = [], []
    for n in range(4_000):
        items = [str(item) for item in rng.permutation(list(rates))[:3]]
        false = 2_000 <= n < 2_600
        chances = [(0.9 if item.endswith("7") else 0.02) if false else rates[item] for item in items]
        lists.append(items)
        clicked.append(
            next((item for item, chance in zip(items, chances, strict=True) if rng.random() < chance), None)
        )
    return pl.DataFrame({"items": lists, "clicked_item": clicked})


@pytest.fixture(scope="module")
def found(log):
    return sr.audit(log)


def test_a_ranker_says_what_it_ranks():
    ranker = sr.Ranker(["a", "b", "c"], 2, "Random")
    ranker.rank()
    ranker.retire("a")
    assert repr(ranker) == "<Ranker of 2 items: lists of 2 by Random, 1 shown>"


class Tables(html.parser.HTMLParser):
    """Texts by the tag that they stand in."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1], []).append(data)


def test_an_audit_is_printed_in_a_sentence_or_two(found):
    assert len(found.intervals) == 1
    said = str(found)
    assert said.startswith("<Audit of 4,000 impressions: ")
    assert len(said) < 600
    assert found.summary[:100] in said
    assert str(found.boards[0]) == (
        "<BoardAudit of a board: 4,000 impressions, 1 suspect intervals, 0 clients that stand out>"
    )


def test_a_notebook_shows_what_is_suspect_and_the_ranking_without_it(found):
    texts = Tables(found._repr_html_()).texts
    assert "b" not in texts  # names are no HTML
    assert texts["th"] == [
        "board",
        "from",
        "impressions",
        "certainty",
        "items",
        "place",
        "all clicks",
        "without suspect ones",
    ]
    assert any(text.startswith("row ") for text in texts["td"])
    assert found.boards[0].clean_ranking[0] in texts["td"]


def test_an_audit_is_drawn_with_its_suspect_intervals(found, log):
    from matplotlib.figure import Figure

    axes = found.plot(Figure().subplots())
    observed, expected = (patch.get_data() for patch in axes.patches[:2])
    assert observed.edges[-1] == 4_000
    assert (observed.values * np.diff(observed.edges)).sum() == pytest.approx(found.boards[0].clicks)
    assert expected.values.shape == observed.values.shape
    (span,) = axes.patches[2:]
    assert (span.get_x(), span.get_x() + span.get_width()) == found.boards[0].places[0]
    with pytest.raises(ValueError, match=r"board must be one of \[None\], not 'home'"):
        found.plot(Figure().subplots(), board="home")


def test_a_run_is_shown_with_its_seeds():
    run = sr.simulate("Random", np.array([0.1, 0.4, 0.3]), length=2, horizon=50, seeds=range(12), budget=0)
    texts = Tables(run._repr_html_()).texts
    assert texts["p"][0] == repr(run)[1:-1]
    assert texts["p"][1] == "and 2 more seeds"
    assert texts["td"][:2] == ["0", f"{run.final[0]:,.1f}"]
    assert len(texts["td"]) == 30

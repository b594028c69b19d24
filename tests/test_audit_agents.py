"""Declared crawlers and AI agents are set apart before anybody is judged."""

import importlib.metadata
import json

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit.show import audit_page, counts_page
from steadyrank.cli import main
from steadyrank.click_logs import agents

pytestmark = pytest.mark.pure

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
GOOGLE = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
GPT = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)"
N = 3_000


def test_agents_are_known_by_what_they_say():
    kinds = [agents.kind_of_agent(text) for text in (FIREFOX, GOOGLE, GPT, "", "a browser of tomorrow/1.0")]
    assert kinds == [agents.PEOPLE, agents.CRAWLER, agents.AI_AGENT, agents.PEOPLE, agents.PEOPLE]


def log(seed=0):
    """A list in three is a crawler's, which clicks everything, in the second half of the log."""
    rng = np.random.default_rng(seed)
    lists = rng.random((N, 12)).argsort(axis=1)[:, :4]
    bits = rng.random(lists.shape) < np.linspace(0.4, 0.05, 12)[lists]
    crawls = (np.arange(N) >= N // 2) & (rng.random(N) < 1 / 3)
    bits[crawls] = True
    said = np.where(crawls, np.where(rng.random(N) < 0.5, GOOGLE, GPT), FIREFOX)
    frame = pl.DataFrame({"items": lists.tolist(), "clicked": bits.astype(int).tolist(), "ua": said.tolist()})
    return frame, crawls


def test_what_declared_agents_click_is_left_out_and_counted():
    frame, crawls = log()
    plain, found = sr.audit(frame), sr.audit(frame, user_agent="ua")
    assert plain.boards[0].clicks - found.boards[0].clicks == 4 * crawls.sum()
    assert found.impressions == N - crawls.sum()
    who = found.visitors
    assert who["list"] == f"crawler-user-agents {importlib.metadata.version('crawler-user-agents')}"
    assert who["counts"]["people"] == N - crawls.sum()
    assert who["counts"]["AI agents"] + who["counts"]["crawlers"] == crawls.sum()
    assert who["counts"]["suspects"] == 0
    points = np.array(who["points"])
    assert points.sum() == N
    assert points[: len(points) // 2 - 1, 2:].sum() == 0  # none before the half
    assert plain.visitors is None
    assert who["list"] in audit_page.page(found)
    assert "Who came" not in audit_page.page(plain)
    by_hand = sr.audit(frame.filter(pl.Series(~crawls)))
    assert found.boards[0].clean_ranking == by_hand.boards[0].clean_ranking


def test_the_command_says_who_came(tmp_path, capsys):
    frame, _ = log()
    path = tmp_path / "log.parquet"
    frame.write_parquet(path)
    assert main(["audit", str(path), "--user-agent", "ua", "--page", str(tmp_path / "page.html")]) == 0
    assert "Set apart by what they say of themselves: " in capsys.readouterr().out
    assert main(["audit", str(path), "--user-agent", "agent", "--json"]) == 2
    assert "--user-agent names 'agent', which is not a column" in capsys.readouterr().err


def test_events_of_declared_agents_are_set_apart_too():
    frame, crawls = log()
    events = pl.DataFrame({"item": np.arange(N) % 7, "time": 1_793_491_200 + 60 * np.arange(N), "ua": frame["ua"]})
    found = sr.audit_counts(events, user_agent="ua")
    assert found.events == N - crawls.sum()
    assert json.loads(found.to_json())["visitors"]["counts"]["people"] == found.events
    assert "Who came" in counts_page.page(found)
    with pytest.raises(ValueError, match="all rows are of declared crawlers"):
        sr.audit_counts(events.filter(pl.Series(crawls)), user_agent="ua")

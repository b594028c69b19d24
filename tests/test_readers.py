"""Readers of the original data sets, on generated files in the original layouts."""

import dataclasses
import io
import json
import pathlib
import random
import resource
import signal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank import cli
from steadyrank.evaluation.lab.cells import Plan, key
from steadyrank.evaluation.lab.runner import run_cell
from steadyrank.evaluation.profiles import lastfm, lines, movielens, originals, totals, yelp
from steadyrank.evaluation.profiles.factors import item_and_visitor_features
from steadyrank.evaluation.profiles.mappings import bayesian_averages
from steadyrank.evaluation.profiles.ratings import Ratings
from steadyrank.evaluation.report.writing import sources_of
from steadyrank.evaluation.studies import ALL, lineup

pytestmark = pytest.mark.pure


def write_movielens(folder, ratings, n_movies, *, csv=True):
    """`ratings` are (user, movie, stars); titles are quoted as the owner does where they hold a comma."""
    if csv:
        text = "userId,movieId,rating,timestamp\n" + "".join(f"{u},{m},{r},{10**9 + u}\n" for u, m, r in ratings)
        titles = "movieId,title,genres\n" + "".join(
            f'{m},"Film, No. {m}",Drama|War\n' for m in range(1, n_movies + 1)
        )
        (folder / "ratings.csv").write_text(text)
        (folder / "movies.csv").write_text(titles)
    else:
        (folder / "ratings.dat").write_text("".join(f"{u}::{m}::{r:.0f}::{10**9}\n" for u, m, r in ratings))
        titles = "".join(f"{m}::Fílm No. {m}::Drama\n" for m in range(1, n_movies + 1))
        (folder / "movies.dat").write_text(titles, encoding="latin-1")


def random_ratings(n, n_movies, seed=0):
    draw = random.Random(seed)
    return [(draw.randint(1, 50), draw.randint(1, n_movies), draw.randint(1, 10) / 2) for _ in range(n)]


def build_movielens(folder, n_items=None, at_least=1, seed=0):
    stream = io.StringIO()
    return movielens.build(folder, n_items=n_items, at_least=at_least, seed=seed, stream=stream), stream.getvalue()


def test_movielens_by_hand(tmp_path):
    write_movielens(tmp_path, [(1, 7, 4.0), (2, 7, 5.0), (1, 3, 0.5), (9, 8, 3.0)], 8)
    ratings, _ = build_movielens(tmp_path)
    assert ratings.items == ["Film, No. 3", "Film, No. 7", "Film, No. 8"]
    assert ratings.counts == [1, 2, 1]
    assert ratings.averages == bayesian_averages([0.5, 4.5, 3.0], [1, 2, 1])
    few, _ = build_movielens(tmp_path, at_least=2)
    assert (few.items, few.averages) == (["Film, No. 7"], [4.5])


@pytest.mark.parametrize("csv", [True, False])
def test_movielens_equals_a_slow_count_over_many_blocks(tmp_path, monkeypatch, csv):
    monkeypatch.setattr(lines, "BLOCK", 997)
    rows = [(u, m, r if csv else max(1.0, float(int(r)))) for u, m, r in random_ratings(3000, 40)]
    write_movielens(tmp_path, rows, 40, csv=csv)
    ratings, said = build_movielens(tmp_path)
    stars: dict[int, list[float]] = {}
    for _, movie, rating in rows:
        stars.setdefault(movie, []).append(rating)
    assert ratings.counts == [len(stars[m]) for m in sorted(stars)]
    expected = bayesian_averages([sum(stars[m]) / len(stars[m]) for m in sorted(stars)], ratings.counts)
    assert ratings.averages == expected
    assert ratings.items[0] == ("Film, No. 1" if csv else "Fílm No. 1")
    assert "malformed" not in said


def test_the_draw_is_random_and_repeatable(tmp_path):
    write_movielens(tmp_path, random_ratings(500, 60), 60)
    first, again, other = (build_movielens(tmp_path, n_items=20, seed=s)[0] for s in (1, 1, 2))
    assert first == again != other
    assert len(first.items) == 20
    everything, _ = build_movielens(tmp_path)
    assert set(zip(first.items, first.averages, strict=True)) <= set(
        zip(everything.items, everything.averages, strict=True)
    )
    with pytest.raises(ValueError, match="61"):
        build_movielens(tmp_path, n_items=61)


BAD_LINES = [
    "1,2", "1,2,3.5,4,5", "", "x,2,3.5,4", "1,2,5.5,4", "1,2,3.3,4", "1,2,,4", "1,2,nan,4", '"1",2,3.0,4',
    "-1,2,3.0,4",    "99999999999999999999,1,3.5,9", "1,2,3.5", "userId,movieId,rating,timestamp",
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_malformed_line_is_left_out_and_named(tmp_path, bad):
    rows = random_ratings(2000, 30)
    write_movielens(tmp_path, rows, 30)
    clean, _ = build_movielens(tmp_path)
    text = (tmp_path / "ratings.csv").read_text().splitlines(keepends=True)
    text.insert(1234, bad + "\n")
    (tmp_path / "ratings.csv").write_text("".join(text))
    ratings, said = build_movielens(tmp_path)
    assert (ratings.counts, ratings.averages) == (clean.counts, clean.averages)
    assert f"ratings.csv: 1 of 2,002 lines are malformed (line 1235: {bad!r}); left out" in said


def test_too_many_malformed_lines_are_fatal(tmp_path):
    write_movielens(tmp_path, random_ratings(2000, 30), 30)
    text = (tmp_path / "ratings.csv").read_text().splitlines(keepends=True)
    for number in (100, 600, 1500):
        text[number] = "junk\n"
    (tmp_path / "ratings.csv").write_text("".join(text))
    with pytest.raises(ValueError, match=r"3 of 2,001 .*101: 'junk'"):
        build_movielens(tmp_path)


@given(cut=st.integers(1, 400))
def test_a_truncated_file_is_refused_unless_cut_between_lines(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("cut")
    write_movielens(folder, random_ratings(40, 5), 5)
    left = (folder / "ratings.csv").read_bytes()[:-cut]
    (folder / "ratings.csv").write_bytes(left)
    if left.endswith(b"\n"):
        assert sum(build_movielens(folder)[0].counts) == left.count(b"\n") - 1
    else:
        with pytest.raises(ValueError, match=r"truncated: it ends within the line"):
            build_movielens(folder)


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 1000)
    write_movielens(tmp_path, [(1, 1, 3.0)], 1)
    with (tmp_path / "ratings.csv").open("ab") as file:
        file.truncate(10_000)  # a download that was begun and never finished
    with pytest.raises(ValueError, match=r"truncated: it ends within the line '\\x00"):
        build_movielens(tmp_path)


def test_the_share_is_judged_by_the_whole_file(tmp_path, monkeypatch):
    """One long malformed line at the front is not most of the file, and a file of junk is given up early."""
    monkeypatch.setattr(lines, "BLOCK", 1000)
    write_movielens(tmp_path, random_ratings(1500, 9), 9)
    rows = (tmp_path / "ratings.csv").read_text().splitlines(keepends=True)
    (tmp_path / "ratings.csv").write_text(rows[0] + "x" * 900 + "\n" + "".join(rows[1:]))
    assert "1 of 1,502 lines are malformed (line 2: 'xxx" in build_movielens(tmp_path)[1]
    (tmp_path / "ratings.csv").write_text(rows[0] + "junk\n" * 20_000 + "".join(rows[1:]))
    with pytest.raises(ValueError, match=r"[1-9]\d\d of \d\d\d lines are malformed .*; \.\.\.\); at most 0.1%"):
        build_movielens(tmp_path)


def test_wrong_folders_and_columns(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        build_movielens(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"ratings.csv .*holds nothing"):
        build_movielens(tmp_path)
    (tmp_path / "ratings.csv").write_text("user,item,stars\n1,2,3\n")
    with pytest.raises(ValueError, match=r"movies.csv .*holds ratings.csv"):
        build_movielens(tmp_path)
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n1,A,B\n")
    with pytest.raises(ValueError, match="not 'user,item,stars'"):
        build_movielens(tmp_path)
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n")
    with pytest.raises(ValueError, match="no rows"):
        build_movielens(tmp_path)
    (tmp_path / "movies.csv").write_text("id,title\n1,A\n")
    with pytest.raises(ValueError, match=r"not \['id', 'title'\]"):
        build_movielens(tmp_path)
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n1,A\n")
    with pytest.raises(ValueError, match=r"movies.csv.*1 of 2 .*'1,A'"):
        build_movielens(tmp_path)
    (tmp_path / "movies.csv").write_text('movieId,title,genres\n1,"A' + "x" * 200_000)
    with pytest.raises(ValueError, match=r"movies.csv: row 2"):
        build_movielens(tmp_path)


def test_a_threshold_that_no_item_meets(tmp_path):
    write_movielens(tmp_path, [(1, 7, 4.0), (2, 7, 5.0), (1, 3, 0.5)], 8)
    with pytest.raises(ValueError, match="at most 2"):
        build_movielens(tmp_path, at_least=3)
    write_yelp(tmp_path, [business(1, reviews=0), business(2)])
    assert build_yelp(tmp_path)[0].items == ["Place 2"]


def business(number, *, city="Philadelphia", categories="Food, Pizza", is_open=1, stars=3.5, reviews=10):
    return {
        "business_id": f"b{number:021d}", "name": f"Place {number}", "address": "1 Long Street", "city": city,
        "state": "PA", "postal_code": "19000", "latitude": 39.9, "longitude": -75.1, "stars": stars,
        "review_count": reviews, "is_open": is_open, "attributes": {"WiFi": "u'no'"}, "categories": categories,
        "hours": None,
    }  # fmt: skip


def write_yelp(folder, businesses, reviews=()):
    def dump(rows):
        return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)

    (folder / "yelp_academic_dataset_business.json").write_text(dump(businesses))
    if reviews:
        (folder / "yelp_academic_dataset_review.json").write_text(dump(reviews))


def build_yelp(folder, **options):
    defaults = {
        "city": "Philadelphia", "category": "Pizza", "closed": False, "reviews": False, "n_items": None,
        "at_least": 0, "seed": 0,
    }  # fmt: skip
    stream = io.StringIO()
    return yelp.build(folder, **(defaults | options), stream=stream), stream.getvalue()


def test_yelp_finds_the_529_of_the_query(tmp_path):
    draw = random.Random(3)
    wanted = [business(i, stars=draw.randint(2, 10) / 2, reviews=draw.randint(5, 900)) for i in range(529)]
    others = [
        business(1000, is_open=0), business(1001, city="Philadelphia "), business(1002, categories="Pizza Ovens"),
        business(1003, categories=None), business(1004, city="Camden"), business(1005, categories="Food"),
    ]  # fmt: skip
    rows = wanted + others * 40
    draw.shuffle(rows)
    write_yelp(tmp_path, rows)
    ratings, _ = build_yelp(tmp_path)
    assert len(ratings.items) == 529
    there = [row for row in rows if row in wanted]
    assert ratings.items == [row["name"] for row in there]
    assert ratings.averages == bayesian_averages([r["stars"] for r in there], [r["review_count"] for r in there])
    assert len(build_yelp(tmp_path, closed=True)[0].items) == 529 + 40
    assert build_yelp(tmp_path, city="Camden")[0].items == ["Place 1004"] * 40
    with pytest.raises(ValueError, match="Paris, Pizza"):
        build_yelp(tmp_path, city="Paris")


def test_yelp_reviews_give_unrounded_means(tmp_path):
    def review(number, stars):
        return {
            "review_id": "r",
            "business_id": f"b{number:021d}",
            "stars": stars,
            "text": 'fine\n"really"',
            "date": "x",
        }

    stars = [(1, 4.0), (2, 1.0), (1, 3.0), (9, 5.0), (1, 3.0)]
    write_yelp(tmp_path, [business(2), business(1)], [review(b, s) for b, s in stars])
    ratings, _ = build_yelp(tmp_path, reviews=True)
    assert (ratings.items, ratings.counts) == (["Place 2", "Place 1"], [1, 3])  # in the order of the business file
    assert ratings.averages == bayesian_averages([1.0, 10 / 3], [1, 3])
    (tmp_path / "yelp_academic_dataset_review.json").unlink()
    with pytest.raises(ValueError, match=r"yelp_academic_dataset_review.json"):
        build_yelp(tmp_path, reviews=True)


BAD_BUSINESSES = [
    '{"business_id": "b"}', "[1]", "{", '{"business_id": 7}', "", json.dumps(business(1, stars=5.5)),
    json.dumps(business(1, stars=None)), json.dumps(business(1, reviews=2**70)), "{}" * 2,
    json.dumps(business(1, stars=float("nan"))),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_BUSINESSES)
def test_yelp_lines_that_are_no_business(tmp_path, bad):
    write_yelp(tmp_path, [business(i) for i in range(1500)])
    file = tmp_path / "yelp_academic_dataset_business.json"
    text = file.read_text().splitlines(keepends=True)
    text.insert(700, bad + "\n")
    file.write_text("".join(text))
    ratings, said = build_yelp(tmp_path)
    assert len(ratings.items) == 1500
    assert f"1 of 1,501 lines are malformed (line 701: {bad[:60]!r}); left out" in said


def user(number):
    return f"{number:040x}"


def build_lastfm(folder, n_items=None, at_least=1):
    stream = io.StringIO()
    return lastfm.build(folder, n_items=n_items, at_least=at_least, seed=0, stream=stream), stream.getvalue()


def write_360k(folder, rows):
    """`rows` are (user, MusicBrainz id, name, plays)."""
    text = "".join(f"{user(u)}\t{mbid}\t{name}\t{plays}\n" for u, mbid, name, plays in rows)
    (folder / "usersha1-artmbid-artname-plays.tsv").write_text(text)


def test_lastfm_percentiles_by_hand(tmp_path):
    """Five artists of one user are rated 5 to 1; ties share the higher place; an artist alone is rated 5."""
    rows = [(1, f"m{i}", f"Band {i}", plays) for i, plays in enumerate([50, 40, 30, 20, 10])]
    rows += [(2, "m0", "Band 0", 7), (2, "m4", 'Band "4', 7), (2, "", "nobody", 9), (3, "m4", "Band 4", 1)]
    write_360k(tmp_path, rows)
    ratings, _ = build_lastfm(tmp_path)
    # user 2: two of three artists have at most 7 plays, ceil(10 / 3) = 4; "nobody" has no id and is no arm
    assert ratings.items == [f"Band {i}" for i in range(5)]
    assert ratings.counts == [2, 1, 1, 1, 3]
    assert ratings.averages == bayesian_averages([4.5, 4.0, 3.0, 2.0, 10 / 3], [2, 1, 1, 1, 3])
    assert ratings.raters == 3
    assert ratings.attractions("listeners") == [2 / 3, 1 / 3, 1 / 3, 1 / 3, 1.0]


def test_both_layouts_of_lastfm_agree_over_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 1499)
    draw = random.Random(5)
    rows = [(u, a, draw.randint(1, 300)) for u in range(1, 60) for a in sorted(draw.sample(range(100, 160), 25))]
    write_360k(tmp_path, [(u, str(a), f"Band {a}", plays) for u, a, plays in rows])
    big, _ = build_lastfm(tmp_path)
    (tmp_path / "usersha1-artmbid-artname-plays.tsv").unlink()
    header = "userID\tartistID\tweight\r\n"
    (tmp_path / "user_artists.dat").write_bytes((header + "".join(f"{u}\t{a}\t{p}\r\n" for u, a, p in rows)).encode())
    names = "id\tname\turl\tpictureURL\r\n" + "".join(f"{a}\tBand {a}\tx\ty\r\n" for a in range(100, 150))
    (tmp_path / "artists.dat").write_bytes(names.encode())
    small, _ = build_lastfm(tmp_path)
    assert (small.counts, small.averages, small.raters) == (big.counts, big.averages, 59)
    assert small.items == [f"Band {a}" for a in range(100, 150)] + [f"artist {a}" for a in range(150, 160)]
    assert np.mean(small.averages) == pytest.approx(3.0, abs=0.05)  # fifths of 25 artists


BAD_PLAYS = [
    f"{user(3)}\tm\tA", f"{user(3)}\tm\tA\tmany", f"{user(3)}\tm\tA\t-4", f"{user(3)}x\tm\tA\t4",
    f"{'g' * 40}\tm\tA\t4",    f"{user(3)}\tm\tA\t4\t5", "", f"{user(3)}\tm\tBj\udcf6rk\t4",
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_PLAYS)
def test_lastfm_malformed_lines(tmp_path, bad):
    write_360k(tmp_path, [(u, f"m{a}", f"Band {a}", a) for u in range(1, 100) for a in range(20)])
    clean, _ = build_lastfm(tmp_path)
    file = tmp_path / "usersha1-artmbid-artname-plays.tsv"
    rows = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*rows[:777], bad.encode("utf-8", "surrogateescape") + b"\n", *rows[777:]]))
    ratings, said = build_lastfm(tmp_path)
    assert ratings == clean
    assert "1 of 1,981 lines are malformed (line 778: " in said


def test_lastfm_without_a_good_line_is_refused(tmp_path):
    write_360k(tmp_path, [])
    (tmp_path / "usersha1-artmbid-artname-plays.tsv").write_text("no play\n")
    with pytest.raises(ValueError, match=r"1 of 1 lines are malformed \(line 1: 'no play'\)"):
        build_lastfm(tmp_path)


def test_lastfm_counts_listeners_not_rows(tmp_path):
    write_360k(tmp_path, [(1, "m", "A", 3), (1, "n", "B", 6), (1, "m", "A2", 5)])
    ratings, _ = build_lastfm(tmp_path)
    assert (ratings.items, ratings.counts, ratings.raters) == (["A", "B"], [1, 1], 1)
    assert ratings.averages == bayesian_averages([5.0, 3.0], [1, 1])  # 8 plays beat 6


def test_a_cut_number_of_plays_is_noticed(tmp_path):
    """The owner's 360K ends with a newline, so a last number can be cut; HetRec's file ends without one."""
    write_360k(tmp_path, [(1, "m", "A", 300), (1, "n", "B", 5000)])
    file = tmp_path / "usersha1-artmbid-artname-plays.tsv"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(ValueError, match=r"truncated: it ends within the line '0+1\\tn\\tB\\t5'"):
        build_lastfm(tmp_path)
    file.unlink()
    (tmp_path / "user_artists.dat").write_text("userID\tartistID\tweight\n1\t2\t3\n1\t4\t5")
    assert build_lastfm(tmp_path)[0].counts == [1, 1]


def test_sums_are_merged_now_and_then(tmp_path, monkeypatch):
    write_movielens(tmp_path, random_ratings(900, 30), 30)
    whole, _ = build_movielens(tmp_path)
    monkeypatch.setattr(lines, "BLOCK", 500)
    monkeypatch.setattr(totals, "_COMPACT_ROWS", 40)
    assert build_movielens(tmp_path)[0] == whole


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path):
    write_movielens(tmp_path, random_ratings(50, 5), 5)
    ratings, _ = build_movielens(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match=r"out.json"):
            ratings.save(tmp_path / "out.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    assert not list(tmp_path.glob("out.json*"))


def test_lastfm_rows_of_a_user_must_stand_together(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 80)
    write_360k(tmp_path, [(1, "m", "A", 1), (2, "m", "A", 2), (3, "m", "A", 2), (1, "n", "B", 1), (4, "n", "B", 1)])
    with pytest.raises(ValueError, match=r"user 0+1"):
        build_lastfm(tmp_path)
    (tmp_path / "usersha1-artmbid-artname-plays.tsv").unlink()
    with pytest.raises(ValueError, match=r"user_artists.dat"):
        build_lastfm(tmp_path)


def test_the_command_builds_a_profile_that_simulates(tmp_path, capsys):
    write_movielens(tmp_path, random_ratings(4000, 60), 60)
    out = tmp_path / "films.json"
    (tmp_path / "sub.json").mkdir()
    build = ["profile", "build", "movielens", "--from", str(tmp_path), "--out", str(out)]
    assert cli.main([*build, "--items", "40", "--at-least", "2"]) == 0
    said = capsys.readouterr()
    assert (
        "40 items: MovieLens ratings.csv, 4,000 ratings: movies with at least 2 ratings, 40 random ones of 60"
        in said.out
    )
    assert "ratings.csv, MB" in said.err
    assert sr.profile(str(out), "sparse").attraction.shape == (40,)
    run = ["simulate", "Random", "--profile", str(out), "--mapping", "sparse", "--horizon", "50", "--seeds", "1"]
    assert cli.main(run) == 0
    assert "movielens (sparse: sigmoid(3 (r - mean) - 3)), 40 items" in capsys.readouterr().out
    for wrong, message in (
        (["--items", "some"], "--items must be a whole number or all, not 'some'"),
        (["--at-least", "-1"], "--at-least must be 0 or more, not -1"),
        (["--out", str(tmp_path / "a.csv")], "--out must end in .json"),
        (["--out", str(tmp_path / "no" / "a.json")], "is not a folder"),
        (["--out", str(tmp_path / "sub.json")], "is a folder; name a file"),
    ):
        assert cli.main([*build, *wrong]) == 2
        assert message in capsys.readouterr().err


def planted(n_visitors=600, n_items=30, share=0.5, noise=0.3, seed=0):
    """Who rated which item how high: item means, two factors of size 1 and 0.5, and noise."""
    rng = np.random.default_rng(seed)
    factors, people = rng.normal(size=(n_items, 2)) * [1.0, 0.5], rng.normal(size=(n_visitors, 2))
    who, what = np.nonzero(rng.random((n_visitors, n_items)) < share)
    stars = (
        rng.uniform(2, 4, n_items)[what] + (people[who] * factors[what]).sum(1) + noise * rng.normal(size=who.size)
    )
    return who, what, stars, factors


def test_planted_factors_are_found():
    """All but 2 % of the variance of the planted factors lies in those found; visitors differ as planted, by 10 %."""
    who, what, stars, factors = planted()
    features, visitors, worth = item_and_visitor_features(who, what, stars, 30, 2, seed=0)
    assert (features.shape, visitors.shape) == ((30, 3), (120, 2))
    assert (features[:, 0] == 1.0).all()
    found = features[:, 1:] @ np.linalg.lstsq(features[:, 1:], factors, rcond=None)[0]
    assert ((found - factors) ** 2).sum() < 0.02 * (factors**2).sum()
    assert (features[:, 1:] @ visitors.T).std() == pytest.approx(np.sqrt((factors**2).sum(1).mean()), rel=0.1)
    assert worth > 0.8
    assert (features[:, 1] ** 2).sum() > (features[:, 2] ** 2).sum()


def test_factors_that_ratings_do_not_speak_for_fade():
    who, what, stars, _ = planted()
    features, _, worth = item_and_visitor_features(
        who, what, np.random.default_rng(1).permutation(stars), 30, 2, seed=0
    )
    assert np.abs(features[:, 1:]).max() < 0.4
    assert abs(worth) < 0.05


def test_one_in_five_visitors_is_held_out():
    """Whatever those two of ten rate, the items' features stay; those of the others shape them."""
    who, what, stars, _ = planted(10, 6, share=1.0)
    before, pool, _ = item_and_visitor_features(who, what, stars, 6, 1, seed=4)
    changed = [np.where(who == one, 6.0 - stars, stars) for one in range(10)]
    after = [item_and_visitor_features(who, what, other, 6, 1, seed=4)[0] for other in changed]
    assert sum(np.array_equal(before, features) for features in after) == len(pool) == 2


def test_too_many_factors_are_refused():
    who, what, stars, _ = planted(10, 6, share=1.0)
    with pytest.raises(
        ValueError, match=r"6 features need more than 6 items and 6 visitors who .*; there are 6 and 8"
    ):
        item_and_visitor_features(who, what, stars, 6, 6, seed=0)
    with pytest.raises(ValueError, match="64"):
        item_and_visitor_features(who, what, stars, 6, 64, seed=0)


def test_the_command_builds_a_world_of_items_and_visitors(tmp_path, capsys):
    who, what, stars, _ = planted(200, 20)
    rated = np.clip(np.round(2 * stars) / 2, 0.5, 5.0)
    write_movielens(tmp_path, [(int(u) + 1, int(m) + 1, r) for u, m, r in zip(who, what, rated, strict=True)], 20)
    out = tmp_path / "films.json"
    build = ["profile", "build", "movielens", "--from", str(tmp_path), "--out", str(out), "--at-least", "1"]
    assert cli.main([*build, "--items", "12", "--features", "2"]) == 0
    assert "; 2 factors of " in capsys.readouterr().out
    world = sr.profile(str(out))
    assert (world.features.shape, world.visitors.shape) == ((12, 3), (40, 2))
    assert cli.main([*build, "--items", "12"]) == 0
    assert np.array_equal(sr.profile(str(out)).attraction, world.attraction)  # the same films, features or not
    assert cli.main([*build, "--items", "12", "--features", "2"]) == 0
    people = ["--users", "LogisticCascade", "--length", "5", "--horizon", "50", "--seeds", "1"]
    assert cli.main(["simulate", "CascadeLinTS", "--profile", str(out), *people]) == 0
    capsys.readouterr()
    assert cli.main([*build, "--features", "64"]) == 2
    assert "--features must be from 0 to 63, not 64" in capsys.readouterr().err


def test_listeners_and_reviewers_have_features_too(tmp_path):
    """The reader tells who rated what: 50 people of two tastes, one factor."""
    rows = [(user, item, 5 if (user + item) % 2 else 1) for user in range(50) for item in range(1, 7)]
    text = "userID\tartistID\tweight\n" + "".join(f"{u}\t{i}\t{plays * 10}\n" for u, i, plays in rows)
    (tmp_path / "user_artists.dat").write_text(text)
    write_yelp(
        tmp_path,
        [business(item) for item in range(1, 7)],
        [{"user_id": f"u{u}", "business_id": business(i)["business_id"], "stars": float(s)} for u, i, s in rows],
    )
    options = {"n_items": None, "at_least": 1, "seed": 0, "n_factors": 1}
    artists = lastfm.build(tmp_path, **options, stream=io.StringIO())
    places, _ = build_yelp(tmp_path, **options, reviews=True)
    for found in (artists, places):
        signs = np.sign(np.outer(np.array(found.features)[:, 1], np.array(found.visitors)[:, 0]))
        assert (signs[::2] == -signs[1::2]).all()
        assert (signs[::2] == signs[0]).all()
    with pytest.raises(ValueError, match="add --reviews"):
        build_yelp(tmp_path, **options)


def write_originals(folder, n_pizza=12, n_films=505, n_artists=501):
    """The three data sets in folders of their own: 100 ratings or listeners an item, so that 500 can be drawn."""
    for name in ("Yelp JSON", "ml-32m", "deep/lastfm-dataset-360K"):
        (folder / name).mkdir(parents=True)
    write_yelp(folder / "Yelp JSON", [business(i, stars=2.0 + i / 6) for i in range(n_pizza)])
    draw = random.Random(1)
    films = [(u, m, draw.randint(1, 10) / 2) for m in range(1, n_films + 1) for u in range(100)]
    write_movielens(folder / "ml-32m", films, n_films)
    plays = [(u, f"m{a}", f"Band {a}", draw.randint(1, 99)) for u in range(100) for a in range(n_artists)]
    write_360k(folder / "deep" / "lastfm-dataset-360K", plays)


def test_the_papers_data_sets_are_built_from_wherever_their_files_lie(tmp_path):
    write_originals(tmp_path / "files")
    files = originals.build_all(tmp_path / "files", tmp_path / "out", io.StringIO())
    assert list(files) == lineup.DATA_SETS
    sizes = {name: sr.profile(path).attraction.size for name, path in files.items()}
    assert sizes == {"yelp-pizza": 12, "movielens-32m": 500, "lastfm": 500}
    again = originals.build_all(tmp_path / "files", tmp_path / "out", io.StringIO())
    assert again == files  # named by their content
    # none of them has the size of the release that the paper used
    assert not any(originals.is_papers(name, Ratings.load(pathlib.Path(path))) for name, path in files.items())
    ratings = Ratings.load(pathlib.Path(files["movielens-32m"]))
    papers = dataclasses.replace(ratings, origin="MovieLens ratings.csv, 32,000,204 ratings: movies")
    assert originals.is_papers("movielens-32m", papers)


def test_a_folder_without_one_of_the_data_sets_is_refused(tmp_path):
    (tmp_path / "ml").mkdir()
    write_movielens(tmp_path / "ml", [(1, 1, 3.0)], 1)
    with pytest.raises(ValueError, match=r"lacks yelp_academic_dataset_business.json \(yelp-pizza\), usersha1"):
        originals.build_all(tmp_path, tmp_path / "out", io.StringIO())
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="is not a folder"):
        originals.build_all(tmp_path / "none", tmp_path / "out", io.StringIO())


def test_a_study_runs_on_the_original_files_and_says_so(tmp_path, capsys):
    """One data set is cut down to Random at a few rounds: what is simulated are the file's arms, not the model's."""
    write_originals(tmp_path / "files")
    files = originals.build_all(tmp_path / "files", tmp_path / "out", io.StringIO())
    jobs = ALL["corruption"].jobs(Plan(2, quick=True, data=files))
    job = next(j for j in jobs if (j.learner, j.profile, j.rate) == ("Random", "yelp-pizza", 0.0))
    assert job.data == files["yelp-pizza"]
    short = dataclasses.replace(job, horizon=50)
    assert key(short, "") != key(dataclasses.replace(short, data=""), "")
    run = run_cell(short)
    model = run_cell(dataclasses.replace(short, data=""))
    assert run.final.tolist() != model.final.tolist()
    found = sources_of(Plan(2, data=files))
    assert not found["yelp-pizza"].papers
    assert found["movielens-32m"].words.endswith("(another release than the paper has)")
    assert cli.main(["reproduce", "--quick", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path)]) == 2
    assert "--data must be a folder with the original files" in capsys.readouterr().err

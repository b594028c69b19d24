import argparse
import re
import subprocess
import sys

import pytest

import steadyrank as sr
from steadyrank import cli
from steadyrank.cli.choices import parse_choice
from steadyrank.core.progress import Progress

pytestmark = pytest.mark.pure


def steadyrank(capsys, *arguments):
    code = cli.main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_simulate_prints_a_table(capsys):
    code, out, err = steadyrank(
        capsys, "simulate", "CascadeUCBV", "CascadeTS:insurance=0.01", "--profile", "synthetic-mid",
        "--adversary", "PrefixFlip", "--schedule", "late", "--budget", "10%", "--horizon", "400", "--seeds", "2",
    )  # fmt: skip
    assert code == 0
    assert out.startswith("synthetic-mid (sigmoid(N(0, 0.5))), 500 items, lists of 10, 400 rounds, 2 seeds, ")
    assert "users Cascade, PrefixFlip late 40 rounds\n" in out
    rows = re.findall(r"^(\S+)\s+([\d.,]+)\s+± ([\d.,]+)\s+(\d+)$", out, re.MULTILINE)
    assert [row[0] for row in rows] == ["CascadeUCBV", "CascadeTS:insurance=0.01"]
    attraction = sr.profile("synthetic-mid").attraction
    run = sr.simulate(
        "CascadeUCBV", attraction, length=10, horizon=400, seeds=range(2), adversary="PrefixFlip", schedule="late",
        budget=40,
    )  # fmt: skip
    assert rows[0][1] == f"{run.final.mean():,.1f}"
    assert rows[0][3] == "40"
    assert "4/4" in err


def test_simulate_runs_steadyrank_by_default_and_says_what_it_suspects(capsys):
    options = ["--profile", "yelp-pizza", "--mapping", "sparse", "--horizon", "3000", "--seeds", "2"]
    attack = ["--adversary", "PrefixFlip", "--schedule", "late", "--budget", "600"]
    code, out, _ = steadyrank(capsys, "simulate", *options, *attack)
    assert code == 0
    row = re.search(r"^SteadyRank\s+[\d.,]+\s+± [\d.,]+\s+(\d+)\s+(\d+)$", out, re.MULTILINE)
    assert 550 <= int(row[1]) <= 600  # now and then it finds nothing to change
    assert 500 <= int(row[2]) <= 700


def test_simulate_says_whom_a_guard_refused(capsys):
    """Inverted feedback is what no cascade user gives, nearly always."""
    options = ["--profile", "synthetic-mid", "--horizon", "400", "--seeds", "2", "--guard", "Plausible:model=cascade"]
    attack = ["--adversary", "PrefixFlip", "--schedule", "late", "--budget", "10%"]
    code, out, _ = steadyrank(capsys, "simulate", "Random", *options, *attack)
    assert code == 0
    assert "PrefixFlip late 40 rounds, guard Plausible:model=cascade\n" in out
    row = re.search(r"^Random\s+[\d.,]+\s+± [\d.,]+\s+40\s+0\.0%\s+([\d.]+)%$", out, re.MULTILINE)
    assert 40 < float(row[1]) <= 100


def test_lists_name_everything_and_its_settings(capsys):
    for kind in ("learners", "adversaries", "users", "guards"):
        code, out, _ = steadyrank(capsys, kind)
        assert code == 0
        for name in getattr(sr, kind)():
            assert re.search(rf"^{name} ", out, re.MULTILINE)
    code, out, _ = steadyrank(capsys, "learners", "MUCBV")
    assert code == 0
    assert "preset = paper-exp   (paper-exp | paper-alg | paper-app | small-block | mean)" in out
    assert "reading = None   (mean | A1 | A2 | A3 | A4)" in out
    assert "warmup = capped   (capped | literal | cycled)" in out
    _, out, _ = steadyrank(capsys, "adversaries")
    assert re.search(r"^PrefixFlip .*\[feedback could not come from a cascade user\]$", out, re.MULTILINE)
    assert re.search(r"^FakeUser .*\[feedback could come from a cascade user\]$", out, re.MULTILINE)
    _, out, _ = steadyrank(capsys, "profiles")
    assert "synthetic-low" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "CascadTS"], "unknown learner 'CascadTS': did you mean 'CascadeTS'"),
        (["simulate", "CascadeTS", "--profile", "yelp"], "unknown profile 'yelp'"),
        (["simulate", "CascadeTS", "--budget", "ten"], "--budget must be a number of rounds or a share such as 10%"),
        (["simulate", "CascadeTS", "--budget", "120%"], "not '120%'"),
        (["simulate", "CascadeTS", "--budget=-5%"], "not '-5%'"),
        (["simulate", "CascadeTS", "--seeds", "0"], "--seeds must be a whole number from 1 to 10000, not 0"),
        (["simulate", "BatchRank", "--length", "0"], "--length must be a whole number from 1 to 500, not 0"),
        (["simulate", "FTRL", "--horizon=-5"], "--horizon must be a whole number of at least 1, not -5"),
        (["simulate", "M2UCBV:selection=gcobe,delta=0"], "delta must be a finite number"),
        (["simulate", "M2UCBV:data="], "data must be one of 'shared', 'private', not ''"),
        (["simulate", "CascadeCBARBAR:schedule=literal,lam="], "lam must be one of"),
        (["serve", "--demo-attack-after", "5"], "--demo-attack-after 5 goes with --demo"),
        (["keys", "create", "mine", "--scope", "admin"], "`keys create` takes no id; 'mine' was given"),
        (["keys", "list", "--board", "b"], "--scope and --board are for `keys create`, not for `keys list`"),
        (["simulate", "CascadeTS", "--horizon", "0"], "horizon must be a whole number of at least 1, not 0"),
        (["simulate", "CascadeTS", "--length", "501"], "length must be a whole number from 1 to 500, not 501"),
        (["simulate", "MUCBV:blok=5"], "MUCBV has no setting 'blok'"),
        (["simulate", "MUCBV:block"], "'block' in 'MUCBV:block' must be setting=value"),
        (["simulate", "CascadeTS", "--adversary", "Nobody"], "unknown adversary 'Nobody'"),
        (["simulate", "CascadeTS", "--budget", "inf%", "--adversary", "PrefixFlip"], "not 'inf%'"),
        (["simulate", "CascadeTS", "--budget", "10%"], "--budget 10% has no effect on Honest"),
        (["simulate", "CascadeTS", "--schedule", "never"], "schedule must be one of"),
        (["simulate", "CascadeTS", "--guard", "Quotas"], "unknown guard 'Quotas': did you mean 'Quota'"),
        (
            ["simulate", "CascadeTS", "--guard", "Quota:visits=0"],
            "visits must be a whole number of at least 1, not 0",
        ),
        (["guards", "Nobody"], "unknown guard 'Nobody'"),
        (
            ["simulate", "CascadeTS", "--adversary", "PrefixFlip"],
            "--adversary PrefixFlip can do nothing without a --budget",
        ),
        (
            ["simulate", "CascadeTS", "--adversary", "PrefixFlip:schedule=late", "--budget", "9"],
            "schedule is an argument of its own",
        ),
        (["compare", "x.py", "--figure", "none/a.svg"], "none is not a folder: none/a.svg cannot be written"),
        (["learners", "Nobody"], "unknown learner 'Nobody'"),
        (["adversaries", "Nobody"], "unknown adversary 'Nobody'"),
        (["reproduce", "--study", "curves"], "unknown study 'curves': did you mean"),
        (["reproduce", "--seeds", "0"], "--seeds must be"),
        (["reproduce", "--workers", "0"], "--workers must be"),
        (["reproduce", "--on", "ray", "--workers", "3"], "--workers has no effect with --on ray"),
        (["reproduce", "--on", "moon"], "on must be local, ray or ray://HOST, not 'moon'"),
        (["report", "--out", "/nowhere"], "/nowhere holds no results; run `steadyrank reproduce"),
        (["results", "--out", "/nowhere"], "/nowhere holds no results"),
        (["results", "--export", "a.xls"], "--export must end in .csv or .parquet, not 'a.xls'"),
        (["compare", "nofile.py"], "'nofile.py' is not a file"),
        (["compare", "x.py", "--rates", "1,b"], "--rates must be percentages between commas such as 0,10,25"),
        (["compare", "x.py", "--rates", "101"], "--rates must be from 0 to 100 percent, not '101'"),
        (["compare", "x.py", "--figure", "a.png"], "--figure must end in .svg, not 'a.png'"),
        (["compare", "x.py", "--with", "Nobody"], "unknown learner 'Nobody'"),
    ],
)
def test_bad_input_says_what_would_be_right(capsys, arguments, message):
    code, out, err = steadyrank(capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in out + err


def every_parser(parser, name="steadyrank"):
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one, sub in action.choices.items():
                yield from every_parser(sub, f"{name} {one}")


@pytest.mark.parametrize(("name", "parser"), list(every_parser(cli._parser())))
def test_help_of_every_command_is_complete_and_names_defaults_that_mean_something(name, parser):
    assert parser.description
    for action in parser._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction), f"{name}: {action.dest} has no help"
    words = " ".join(parser.format_help().split())
    assert not re.search(r"\(default: (None|False|True|\[|==)", words)
    assert not re.search(r"\(default:[^()]*\) \(default:", words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "x.csv", "--clickd", "y"], "unknown argument --clickd y: did you mean --clicked?"),
        (
            ["history", "b", "x.csv", "--zzz"],
            "unknown argument --zzz; `steadyrank history --help` shows what there is",
        ),
    ],
)
def test_an_argument_that_a_command_does_not_take_is_named_with_what_was_perhaps_meant(capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert f"steadyrank {arguments[0]}: {words}\n" == capsys.readouterr().err


def test_help_names_defaults(capsys):
    for arguments, words in {
        ("serve",): ["(default: 8080)", "(default: 5,000,000)", "(default: the value of STEADYRANK_STORE"],
        ("audit",): ["(default: 1%)", "(default: 7)"],
        ("compare",): ["(default: CascadeTS CascadeUCBV M2UCBV)", "(default: 40,000)"],
        ("profile", "build", "yelp"): ["(default: Philadelphia)"],
    }.items():
        with pytest.raises(SystemExit) as stop:
            cli.main([*arguments, "--help"])
        assert stop.value.code == 0
        out = " ".join(capsys.readouterr().out.split())
        assert all(word in out for word in words)


def test_a_later_learners_bad_setting_is_found_before_the_first_one_runs(capsys):
    code, out, err = steadyrank(capsys, "simulate", "Random", "MUCBV:block=4", "--horizon", "300", "--seeds", "2")
    assert (code, out) == (2, "")
    assert "1/4" not in err
    assert "block must be odd" in err


@pytest.mark.always
def test_a_reader_that_leaves_early_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m steadyrank.cli learners | head -1", shell=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("BatchRank")
    assert done.stderr == ""


def test_values_of_settings():
    assert parse_choice("A:i=3,f=0.5,t=true,n=none,w=paper-exp") == (
        "A", {"i": 3, "f": 0.5, "t": True, "n": None, "w": "paper-exp"},
    )  # fmt: skip


def test_interruption_is_an_exit_code(capsys, monkeypatch):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.profile, "_list", interrupt)
    assert steadyrank(capsys, "profiles") == (130, "", "interrupted\n")


class Terminal:
    """A stream that says whether it is a terminal and remembers what it was sent."""

    def __init__(self, terminal):
        self.terminal, self.sent = terminal, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.sent += text

    def flush(self):
        pass


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_tells_the_remaining_time(terminal):
    now = [0.0]
    stream = Terminal(terminal)
    bar = Progress(4, "testing", stream, clock=lambda: now[0])
    for _ in range(4):
        now[0] += 30.0
        bar.step()
    bar.close()
    assert "1/4  1 min 30 s left" in stream.sent
    assert "4/4 in 2 min 0 s" in stream.sent
    assert ("\r" in stream.sent) == terminal


def test_progress_says_that_it_compiles_and_leaves_that_out_of_the_remaining_time():
    """A minute of compiling, one function in another, then 10 s a job: 20 s are left for two, not 93."""
    now, stream = [0.0], Terminal(True)
    bar = Progress(3, "testing", stream, clock=lambda: now[0])
    for begins, took in ((True, 20.0), (True, 20.0), (False, 20.0), (False, 10.0)):
        bar.compiling(begins)
        now[0] += took
    assert "0/3  compiling, once: 40 s so far" in stream.sent
    bar.step()
    assert "1/3  20 s left" in stream.sent
    bar.step(2)
    bar.close()
    assert "3/3 in 1 min 10 s, 1 min 0 s of it for compiling" in stream.sent


def test_the_compiler_is_heard_of_when_it_works_and_not_when_code_is_there():
    from steadyrank.core.compiling.jit import told_of_compiling, uncached

    @uncached
    def half(x):
        return x / 2

    heard = []
    with told_of_compiling(heard.append):
        assert half(3) == 1.5
        half(5)
    half(3.0)
    assert heard == [True, False]


@pytest.mark.always
def test_own_adversaries_are_known_by_name(capsys, tmp_path):
    """The example's adversary, from a shell."""
    from pathlib import Path

    own = Path(__file__).parent.parent / "examples" / "own_adversary.py"
    arguments = ["simulate", "Random", "--horizon", "50", "--seeds", "1", "--adversary", "Lurker:depth=1"]
    code, _, err = steadyrank(capsys, *arguments, "--budget", "10%")
    assert (code, "unknown adversary 'Lurker'" in err) == (2, True)
    code, out, err = steadyrank(capsys, *arguments, "--budget", "10%", "--own", str(own))
    assert code == 0, err
    assert "Lurker:depth=1 front 5 rounds" in out
    code, _, err = steadyrank(capsys, *arguments, "--own", str(tmp_path / "none.py"))
    assert (code, "none.py' is not a file" in err) == (2, True)


@pytest.mark.always
@pytest.mark.slow
def test_what_is_warmed_is_not_compiled_again(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("STEADYRANK_CACHE", str(tmp_path))
    assert cli.main(["warm", "Random", "--adversary", "Honest"]) == 0
    assert f"compiled code is kept in {tmp_path}" in capfd.readouterr().out
    script = (
        "import steadyrank as sr; from steadyrank.core.compiling.jit import told_of_compiling; heard = []\n"
        "with told_of_compiling(heard.append):\n"
        "    sr.simulate('Random', [0.1, 0.2, 0.3], length=2, horizon=10, seeds=[0])\n"
        "    ranker = sr.Ranker(list('abc'), 2, learner='Random'); ranker.feedback(ranker.rank().id, clicked=None)\n"
        "assert not heard, heard\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, _, err = cli.main(["warm", "Randon"]), *capfd.readouterr()
    assert (code, "did you mean 'Random'" in err) == (2, True)


@pytest.mark.always
def test_simulating_needs_no_extra():
    """A base install has neither polars nor matplotlib: what needs them says so, the rest works."""
    script = (
        "import sys; sys.modules['polars'] = sys.modules['matplotlib'] = None\n"
        "from steadyrank.cli import main\n"
        "assert main(['simulate', 'Random', '--profile', 'movielens', '--horizon', '20', '--seeds', '1']) == 0\n"
        "assert main(['profiles']) == 0\n"
        "for command in (['reproduce'], ['report'], ['results'], ['compare', 'x.py'],\n"
        "                ['profile', 'build', 'yelp', '--from', '.', '--out', 'x.json']):\n"
        "    assert main(command) == 2\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is missing; install it with: pip install 'steadyrank[report]'") == 5

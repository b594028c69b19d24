"""The attacks of `make soak`: that they run, and that their table tells what was found."""

import pathlib
import runpy
import subprocess
import sys

import pytest

SOAK = pathlib.Path(__file__).parent.parent / "bench" / "soak.py"


def test_an_attack_is_run_and_told():
    done = subprocess.run(
        [sys.executable, SOAK, "--once", "before the first key"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    head, row = done.stdout.splitlines()
    assert head.split() == ["attack", "limit", "worst", "found", "runs", "held"]
    assert row.split("  ")[0] == "before the first key"
    assert row.endswith("1  yes")
    assert "0 of 5" in row


def test_an_attack_that_is_not_there_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["soak.py", "flood"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(SOAK))["main"]()
    assert end.value.code == 2
    assert "no attack ['flood']: choose from silence, lists of one client" in capsys.readouterr().err

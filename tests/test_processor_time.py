"""What a run says of the processor time that it took."""

import collections
import subprocess
import sys

import processor_time

BUSY = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"


def test_processes_count_while_they_run_and_when_they_have_ended():
    before = processor_time.spent()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        if processor_time._children("self"):  # this system tells
            assert processor_time.spent() - before > 0.35
        child.communicate(b"\n")
    assert processor_time.spent() - before > 0.35


def test_what_is_spent_is_that_of_the_file_that_runs(monkeypatch):
    spent = iter([3.0, 4.0, 9.0, 9.5])
    monkeypatch.setattr(processor_time, "spent", lambda: next(spent))
    account = processor_time.Account()
    for file in ("a", "b", "b", "a"):
        account.turn_to(file)
    assert account.close() == {"": 3.0, "a": 1.5, "b": 5.0}


def test_the_end_of_a_run_names_the_ten_most_expensive_files():
    seconds = collections.Counter({f"file {n}": float(n) for n in range(1, 13)}) + collections.Counter({"": 20.0})
    first, *others = processor_time.told(seconds)
    assert first.startswith("98 s in all, 20 of them before")
    assert [line.split("  ")[-1] for line in others] == [f"file {n}" for n in range(12, 2, -1)]

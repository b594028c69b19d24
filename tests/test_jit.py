"""The disk cache: never stale, never mixed up between processes, never in the way."""

import functools
import importlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.codegen import JITCodeLibrary

import steadyrank
from nursery import Nursery
from steadyrank.core.compiling import intrinsics, jit, late_library, late_linking, sources
from steadyrank.core.compiling.announcing import announcing, unannounced

SOURCE = pathlib.Path(steadyrank.__file__).parent
COMPILED = ("adversaries", "core", "guards", "learners", "simulator", "users")  # where compiled functions are
only_late = pytest.mark.skipif(not late_linking.ACTIVE, reason="this numba compiles in its own way")

RUN = """
import numpy as np
import steadyrank as sr
foe = {"adversary": "PrefixFlip", "budget": 0}
print(sr.simulate("CascadeTS", np.linspace(0.05, 0.9, 10), length=2, horizon=200, seeds=[0], **foe).final[0])
"""


def run(script, **environment):
    """Run a script in a process of its own; returns what it printed and what it warned of."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


class Script:
    """A script with the miniature package of a folder and its cache, in a process forked from one in which only numba
    was imported: what it does is the same, and starting takes no time."""

    nursery = None

    def __init__(self, script, folder, *arguments, **environment):
        Script.nursery = Script.nursery or Nursery("scripts")
        own = {"PYTHONPATH": str(folder), "STEADYRANK_CACHE": str(folder / "cache")}
        self._out, self._errors = (folder / f"{uuid.uuid4()}.{name}" for name in ("out", "errors"))
        order = [[script, *arguments], {**os.environ, **own, **environment}, self._out, self._errors]
        self._process = Script.nursery.fork(*order)

    def until(self, line):
        """Wait for the first line that it prints."""
        while not self._out.exists() or not self._out.read_text().endswith("\n"):
            assert self._process.poll() is None, self._errors.read_text()
            time.sleep(0.005)
        assert self._out.read_text() == f"{line}\n"

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def result(self):
        """What it printed and what it warned of."""
        assert self._process.wait() == 0, self._errors.read_text()
        return self._out.read_text().strip(), self._errors.read_text()


def run_small(script, folder, **environment):
    return Script(script, folder, **environment).result()


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left():
    yield
    if Script.nursery:
        Script.nursery.close()
        Script.nursery = None


def miniature(folder):
    """A package with the real `core/compiling` and two small modules, so that compiling takes no time."""
    package = folder / "steadyrank"
    shutil.copytree(SOURCE / "core" / "compiling", package / "core" / "compiling")
    (package / "simulator").mkdir()
    for face in (package, package / "core", package / "simulator"):
        (face / "__init__.py").write_text("")
    write_kernel(package, "x + 1")
    (package / "simulator" / "simulate.py").write_text(
        "from ..core.compiling.jit import kernel\nfrom ..core.kernels import step\n\n"
        "@kernel\ndef play(x):\n    return 10 * step(x)\n"
    )
    return package


def write_kernel(package, result):
    text = f"from .compiling.jit import kernel\n\n@kernel\ndef step(x):\n    return {result}\n"
    (package / "core" / "kernels.py").write_text(text)


def test_an_edit_of_another_file_takes_effect_with_a_warm_cache(tmp_path):
    """The hazard: numba's cache of the loop does not notice that a kernel it calls has changed."""
    package = miniature(tmp_path)
    script = "from steadyrank.simulator.simulate import play; print(play(4), play.stats.cache_hits)"
    assert run_small(script, tmp_path)[0] == "50 Counter()"
    assert run_small(script, tmp_path)[0] == "50 Counter({(int64,): 1})"
    write_kernel(package, "x + 2")
    assert run_small(script, tmp_path)[0] == "60 Counter()"
    # switching bounds checking on is another version too, and back is the one before
    environment = {"PYTHONPATH": str(tmp_path), "STEADYRANK_CACHE": str(tmp_path / "cache")}
    assert run(script, **environment, NUMBA_BOUNDSCHECK="1")[0] == "60 Counter()"
    assert len(list((tmp_path / "cache").iterdir())) == 2
    write_kernel(package, "x + 1")
    assert run_small(script, tmp_path)[0] == "50 Counter({(int64,): 1})"


def test_an_edit_after_the_import_is_not_taken_for_what_was_imported(tmp_path):
    """A process that compiles after an edit has the text from before it: its code is not kept under the new text."""
    package = miniature(tmp_path)
    text = (package / "core" / "kernels.py").read_text().replace("x + 1", "x + 20")
    edit = f"import pathlib; pathlib.Path({str(package / 'core' / 'kernels.py')!r}).write_text({text!r})"
    script = "from steadyrank.simulator.simulate import play; {}; print(play(4))"
    assert run_small(script.format(edit), tmp_path) == ("50", "")
    assert not list((tmp_path / "cache").rglob("*.code"))
    assert run_small(script.format("pass"), tmp_path) == ("240", "")


RECORDS = {
    "core/numbers.py": "SCALE = 3\n",
    "core/steps.py": """
from .compiling.jit import kernel
from .numbers import SCALE

@kernel
def step(n):
    return n * SCALE
""",
    "learners/one.py": """
from typing import NamedTuple
from ..core.steps import step

class One(NamedTuple):
    n: int

    def rank(self, visit, allowed, ranking, note, rng):
        ranking[0] = step(self.n)
""",
    "learners/other.py": """
from typing import NamedTuple

class Other(NamedTuple):
    n: int

    def rank(self, visit, allowed, ranking, note, rng):
        ranking[0] = self.n * 2
""",
}


def test_an_edit_recompiles_what_it_reaches_and_nothing_else(tmp_path):
    """Two learners, of which one calls a kernel that reads a constant of a module without compiled code."""
    package = miniature(tmp_path)
    for name in ("arrays", "contract", "dispatch"):
        shutil.copy(SOURCE / "core" / f"{name}.py", package / "core")
    (package / "learners").mkdir()
    script = """
import numpy as np
from numba.core import event
from steadyrank.core.dispatch import call_rank
from steadyrank.learners.one import One
from steadyrank.learners.other import Other
for learner in (One(5), Other(5)):
    ranking = np.zeros(1, np.int64)
    with event.install_recorder("numba:compile") as log:
        call_rank(learner, 1, None, ranking, None, np.random.default_rng(0))
    print(ranking[0], "made" if log.buffer else "kept")
"""

    def after(**edits):
        for name, text in RECORDS.items():
            old, new = edits.get(pathlib.Path(name).stem, ("", ""))
            (package / name).write_text(text.replace(old, new) if old else text)
        printed, warned = run_small(script, tmp_path)
        assert not warned
        return printed.splitlines()

    assert after() == ["15 made", "10 made"]
    assert after(other=("* 2", "* 3")) == ["15 kept", "15 made"]
    assert after(steps=("n * SCALE", "n * SCALE + 1")) == ["16 made", "10 kept"]
    assert after(numbers=("3", "4")) == ["20 made", "10 kept"]
    assert after() == ["15 kept", "10 kept"]


class Part(NamedTuple):
    values: np.ndarray


class Whole(NamedTuple):
    parts: tuple
    n: int


def test_records_are_seen_at_any_depth_and_code_that_is_handed_over_is_not_kept():
    whole = Whole((Part(np.zeros(2)), (Part(np.zeros(3, np.int64)), 0.5)), 3)
    arguments = (whole, None, np.random.default_rng(0), True, np.zeros((2, 2)), (1, 2), "name")
    assert list(jit._records(map(numba.typeof, arguments))) == [Whole, Part, Part]
    assert list(jit._records([numba.typeof((1, numba.njit(lambda x: x)))])) == [None]


def test_versions_and_flags_have_folders_of_their_own(monkeypatch):
    first = jit._version()
    assert first == jit._version()
    for flag, value in [("BOUNDSCHECK", 1), ("OPT", 0), ("CPU_NAME", "generic")]:
        with monkeypatch.context() as patch:
            patch.setattr(jit.config, flag, value)
            assert jit._version() != first
    for owner, name in [(jit.numba, "__version__"), (jit, "ACTIVE")]:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, "something else")
            assert jit._version() != first


def names_of(code):
    """The names that a function and those inside it read."""
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names_of(constant)


def test_all_that_compiled_functions_name_is_among_the_sources_they_are_kept_under():
    modules = [name for name in sources._SOURCES if name.split(".")[1:2] and name.split(".")[1] in COMPILED]
    assert len(modules) > 100
    checked = 0
    for module in map(importlib.import_module, modules):
        own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
        methods = [method for value in own if hasattr(value, "_fields") for method in vars(value).values()]
        for value in own + methods:
            function = getattr(value, "py_func", getattr(value, "plain", value))
            for name in names_of(function.__code__) if hasattr(function, "__code__") else ():
                home = getattr(module.__dict__.get(name), "__module__", None) or ""
                if home.startswith("steadyrank."):
                    checked += 1
                    assert home in sources.reached(module.__name__), (module, function, name)
    assert checked > 1_000


def test_the_sources_of_the_loop_are_those_of_no_learner():
    """The loop does not change with them: the record types of its signature name them."""
    reached = sources.reached("steadyrank.simulator.loop")
    assert {"steadyrank.core.rounds", "steadyrank.core.dispatch"} <= reached
    assert not [name for name in reached if re.match(r"steadyrank\.(learners|users|guards)\.", name)]
    assert "steadyrank.learners.cascade_ts" not in sources.reached("steadyrank.learners.cascade_ucb1")


def test_ways_to_import():
    text = """
from . import rounds, views as v
from .settings import (  # (as they are)
    closest,
)
from ..learners import ALL, \\
    cascade_ts
if TYPE_CHECKING:
    from ..users import cascade

    from .places import x
def later():
    import steadyrank.core.philox, numpy
from ..nowhere import nothing
"""
    imported = set(sources._imports("steadyrank.core.kernels", text))
    names = ("core", "core.rounds", "core.views", "core.settings", "learners", "learners.cascade_ts", "core.philox")
    assert imported == {f"steadyrank.{name}" for name in names}


def test_a_second_process_compiles_nothing():
    """With a warm cache no dispatcher compiles: numba's event log stays empty."""
    script = (
        "from numba.core import event\n"
        f"with event.install_recorder('numba:compile') as log:\n{textwrap.indent(RUN, '    ')}\n"
        "print(len([e for _, e in log.buffer if e.is_start]))\n"
    )
    run(script)
    printed, _ = run(script)
    assert printed.splitlines()[-1] == "0"


def test_processes_that_save_at_once_do_not_exchange_code(tmp_path):
    """Three processes compile one function for three types into one empty cache; all read back well.

    Without the lock two of them pick the same file name, and one type is later served the code of another.
    """
    write_kernel(miniature(tmp_path), "x[1] + 1")
    kinds = ["int8", "int64", "float64"]
    script = (
        "import sys, os, time, numpy as np\n"
        "from steadyrank.simulator.simulate import play\n"
        "x = np.array([3, 4, 5], sys.argv[1])\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.001)\n"
        "print(play(x) == 50)\n"
    )
    gate = tmp_path / "gate"
    for _ in range(2):  # filling at once, then reading back
        jobs = [Script(script, tmp_path, kind, str(gate)) for kind in kinds]
        gate.touch()
        assert [job.result()[0] for job in jobs] == ["True"] * len(kinds)


def test_of_processes_that_need_the_same_code_one_compiles_and_the_others_wait(tmp_path):
    miniature(tmp_path)
    script = (
        "import os, sys, time\n"
        "from steadyrank.simulator.simulate import play\n"
        f"while not os.path.exists({str(tmp_path / 'gate')!r}): time.sleep(0.001)\n"
        "print(play(4), sum(play.stats.cache_hits.values()))\n"
    )
    jobs = [Script(script, tmp_path) for _ in range(3)]
    (tmp_path / "gate").touch()
    assert sorted(job.result()[0] for job in jobs) == ["50 0", "50 1", "50 1"]
    assert not list((tmp_path / "cache").rglob("*.claim"))


def test_nobody_waits_for_a_process_that_was_killed_or_stopped(tmp_path):
    miniature(tmp_path)
    claim = (
        "import numba, time\n"
        "from steadyrank.simulator.simulate import play\n"
        "assert play._cache.load_overload((numba.int64,), play.targetctx) is None\n"
        "print('claimed', flush=True)\n"
        "time.sleep(600)\n"
    )
    use = (
        "from steadyrank.core.compiling import jit\n"
        "from steadyrank.simulator.simulate import play\n"
        "jit._PATIENCE = {}\nprint(play(4))"
    )
    holder = Script(claim, tmp_path)
    holder.until("claimed")
    assert run_small(use.format(0.1), tmp_path)[0] == "50"  # as if it were stopped
    shutil.rmtree(tmp_path / "cache")
    again = Script(claim, tmp_path)
    again.until("claimed")
    waiting = Script(use.format(600.0), tmp_path)
    for process in (holder, again):
        process.kill()
    assert waiting.result()[0] == "50"


def test_code_that_cannot_be_compiled_is_not_claimed_for_ever(tmp_path):
    package = miniature(tmp_path)
    write_kernel(package, "x.missing")
    script = (
        "from numba.core.errors import TypingError\n"
        "from steadyrank.core.kernels import step\n"
        "try:\n    step(4)\nexcept TypingError:\n    print(step._cache._claims)\n"
    )
    assert run_small(script, tmp_path)[0] == "{}"


def test_a_cache_that_cannot_be_written_warns_and_runs(tmp_path):
    miniature(tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    script = "from steadyrank.simulator.simulate import play; print(play(4))"
    printed, warned = run_small(script, tmp_path, STEADYRANK_CACHE=str(blocked))
    assert printed == "50"
    assert "compiled code cannot be kept" in warned
    assert "Set STEADYRANK_CACHE to a writable directory" in warned


def test_a_disk_that_fills_up_warns_and_runs(tmp_path):
    """Files may not grow beyond 200 bytes, a limit of the kernel's that stands in for a full disk."""
    miniature(tmp_path)
    script = (
        "import resource, signal\n"
        "from steadyrank.simulator.simulate import play\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
        "print(play(4))\n"
    )
    printed, warned = run_small(script, tmp_path)
    assert printed == "50"
    assert "compiled code was not kept" in warned


def test_what_was_not_used_for_longest_goes_when_the_cache_is_too_large_and_nothing_else(tmp_path, monkeypatch):
    """By the order of use alone: where a clock is a year ahead, nothing goes."""
    used = {"0123456789ab/old": 2, "0123456789ab/older": 1, "ba9876543210/young": 4e9, "photos of 2019/me": 0}
    for name, when in used.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(1_000))
        os.utime(tmp_path / name, (when, when))
    monkeypatch.setattr(jit, "_MOST_BYTES", 3_000)
    jit._make_room.__wrapped__(tmp_path)
    assert len(list(tmp_path.rglob("*/*"))) == 4
    monkeypatch.setattr(jit, "_MOST_BYTES", 2_500)
    jit._make_room.__wrapped__(tmp_path)
    assert {p.name for p in tmp_path.rglob("*/*")} == {"old", "young", "me"}
    monkeypatch.setattr(jit, "_MOST_BYTES", 1_500)
    jit._make_room.__wrapped__(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"ba9876543210", "photos of 2019"}


def test_code_for_records_of_others_is_not_kept(tmp_path):
    """Kept, it would be stale after an edit, and unreadable where the other module is missing."""
    package = miniature(tmp_path)
    theirs = tmp_path / "theirs.py"
    theirs.write_text("from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    a: int\n    b: float\n")
    write_kernel(package, "x.a + 1")
    script = "from steadyrank.simulator.simulate import play; from theirs import Pair; print(play(Pair(4, 0.5)))"
    assert run_small(script, tmp_path) == ("50", "")
    assert not list((tmp_path / "cache").rglob("*.code"))
    theirs.write_text("from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    b: int\n    a: float\n")
    assert run_small(script, tmp_path) == ("15.0", "")


def test_a_torn_file_is_replaced(tmp_path):
    miniature(tmp_path)
    script = "from steadyrank.simulator.simulate import play; print(play(4), sum(play.stats.cache_hits.values()))"
    assert run_small(script, tmp_path)[0] == "50 0"
    for file in (tmp_path / "cache").rglob("*.code"):
        file.write_bytes(b"")
    printed, warned = run_small(script, tmp_path)
    assert printed == "50 0"
    assert "unreadable and is made anew" in warned
    assert run_small(script, tmp_path) == ("50 1", "")


def test_interpreted_and_compiled_processes_agree():
    """Whole runs of 150 rounds: switching compilation off changes not one bit.

    How each learner ranks and learns, compiled and not, is compared in test_contract.py.
    """
    script = """
import numpy as np
import steadyrank as sr
attraction = np.random.default_rng(0).uniform(0, 0.6, 20)
for name in ("CascadeTS", "CascadeUCBV"):
    foe = {"adversary": "PrefixFlip", "budget": 20 if name == "CascadeTS" else 0}
    run = sr.simulate(name, attraction, length=3, horizon=150, seeds=[0], **foe)
    print(name, run.final[0].hex())
"""
    assert run(script)[0] == run(script, NUMBA_DISABLE_JIT="1")[0]


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("lengths", "horizon"),
    [((1, 7, 20), 120), *(pytest.param((n,), 300, marks=slow) for n in (1, 7, 20))],
)
def test_no_learner_reads_or_writes_out_of_bounds(lengths, horizon):
    """All learners under an attack, with lists of one item, of all, or of some, each of them one; `make soak` does
    all of them with each, and compiled too, for minutes.

    Interpreted, numpy refuses each index that numba's own checks would refuse. That compiled code does the same as
    interpreted code is checked in test_contract.py, with lists of four.
    """
    script = f"""
import numpy as np
import steadyrank as sr
attraction = np.random.default_rng(0).uniform(0, 0.6, 20)
lengths, world = {lengths}, dict(seeds=[0], adversary="PrefixFlip", features=np.eye(20, 3))
for i, name in enumerate(sr.learners()):
    horizon = {horizon} if len(lengths) == 1 or name != "PBMFTRL" else 30  # interpreted, its rounds are long
    size = dict(length=lengths[i % len(lengths)], horizon=horizon, budget=min(60, horizon // 2))
    sr.simulate(name, attraction, **size, **world)
print("fine")
"""
    assert run(script, NUMBA_DISABLE_JIT="1")[0] == "fine"
    if "STEADYRANK_KILLS" in os.environ:
        assert run(script, NUMBA_BOUNDSCHECK="1")[0] == "fine"


def test_uncounted_code_may_not_allocate_and_borrows_from_the_stack():
    @jit.no_refcount
    def squares(total):
        scratch, whole = intrinsics.stack_floats(total.size), intrinsics.stack_ints(total.size)
        for i in range(total.size):
            scratch[i], whole[i] = 0.5 * i, i
        for i in range(total.size):
            total[i] = scratch[i] * whole[i]

    @jit.no_refcount
    def allocates(n):
        return np.empty(n).size

    total = np.zeros(5)
    squares(total)
    assert total.tolist() == [0.0, 0.5, 2.0, 4.5, 8.0]
    with pytest.raises(numba.core.errors.NumbaError):
        allocates(3)


def test_what_is_lent_is_the_same_and_its_owner_keeps_it():
    @jit.kernel
    def add(pair, rng, rounds):
        pair, rng = intrinsics.borrowed(pair), intrinsics.borrowed(rng)
        for _ in range(rounds):
            pair[0][0] += rng.random() < 2.0
        return pair[1]

    values = np.zeros(3)
    count = sys.getrefcount(values)
    for _ in range(100):
        assert add((values, 7), np.random.default_rng(0), 10) == 7
    assert values.tolist() == [1000.0, 0.0, 0.0]
    assert sys.getrefcount(values) == count


def test_what_is_inlined_is_for_compiled_callers_alone():
    """With a generator from Python it has ended the process."""

    @jit.inlined
    def drawn(rng):
        return rng.random()

    @jit.uncached
    def both(rng):
        return drawn(rng), drawn(rng)

    with pytest.raises(TypeError, match="drawn"):
        drawn(np.random.default_rng(1))
    assert both(np.random.default_rng(1)) == tuple(np.random.default_rng(1).random(2))


def test_a_generator_found_by_its_address_draws_the_same_numbers():
    @numba.njit
    def draw(places, n):
        rng, total = intrinsics.generator_at(places), 0.0
        for _ in range(n):
            total += rng.random() + rng.beta(2.0, 3.0) + rng.standard_gamma(0.5) + rng.integers(0, 9)
        return total

    @numba.njit
    def plainly(rng, n):
        total = 0.0
        for _ in range(n):
            total += rng.random() + rng.beta(2.0, 3.0) + rng.standard_gamma(0.5) + rng.integers(0, 9)
        return total

    for bits in (np.random.PCG64, np.random.Philox, np.random.MT19937):
        one, other = (np.random.Generator(bits(7)) for _ in range(2))
        places = intrinsics.addresses(one)
        for n in (1, 5, 1_000):
            assert draw(places, n) == plainly(other, n)
        assert one.random() == other.random()


@only_late
def test_what_only_compiled_code_calls_waits_and_what_python_calls_does_not():
    def half(x):
        if x < 0.0:
            raise ValueError("half of what is owed")  # what is raised stands in the function's environment
        return 0.5 * x

    inner = jit.uncached(half)

    def quarter(x):
        return inner(inner(x))

    outer = jit.uncached(quarter)
    assert outer(8.0) == 2.0
    with pytest.raises(ValueError, match="what is owed"):
        outer(-1.0)
    called = next(iter(outer.overloads.values())).library
    linked = called._linking_libraries[0]
    assert isinstance(called, late_library.LateLibrary)
    assert not called._waits
    assert linked._waits
    assert linked.get_pointer_to_function("nobody's name") == 0
    assert inner(-0.0) == 0.0  # called by Python after all: compiled for it


def test_a_constant_that_is_handed_over_compiles_nothing_more():
    """Numba gives each constant a type of its own, and a counter that begins as one has two."""
    twice = jit.uncached(lambda x: 2 * x)
    compiled = []

    def count(n):
        total = twice(3)
        counter = 0
        while counter < n:
            counter = twice(counter) + 1
        return total + counter

    class Listener(event.Listener):
        def on_start(self, begun):
            compiled.append(begun.data["dispatcher"].py_func)

        def on_end(self, ended):
            pass

    with event.install_listener("numba:compile", Listener()):
        assert jit.uncached(count)(5) == 13
    assert compiled.count(twice.py_func) == 1


@only_late
def test_code_of_other_packages_is_compiled_as_numba_does_it():
    """Also after ours, and where both call the same function of numba's: it is finished when theirs links it.

    In a process of its own: such a function is ours only where nobody compiled before.
    """
    script = """
import numba
import numpy as np
from numba.core.codegen import JITCodeLibrary
from steadyrank.core.compiling import jit, late_library

ours = jit.uncached(lambda x: np.argmin(x) + np.argmin(x))
assert ours(np.arange(3.0)) == 0
codegen = numba.core.registry.cpu_target.target_context.codegen()
assert not {"create_library", "unserialize_library", "set_env", "_library_class"} & set(vars(codegen))
called = numba.njit(lambda x: np.argmin(x))
whole = numba.njit(lambda x: 2 * called(x))
assert whole(np.array([1.0, 0.0])) == 2
try:
    whole(np.zeros(0))
except ValueError as error:
    assert "empty sequence" in str(error)
shared = []
for function in (called, whole):
    for made in function.overloads.values():
        assert type(made.library) is JITCodeLibrary
        shared += [lib for lib in made.library._linking_libraries if isinstance(lib, late_library.LateLibrary)]
assert shared
assert not any(library._waits for library in shared)
print("fine")
"""
    assert run(script)[0] == "fine"


@only_late
def test_code_of_other_packages_that_another_thread_compiles_is_untouched():
    """Two threads compile at the same time, one of them our code and one somebody else's."""
    kinds = []

    def compile_theirs():
        theirs = numba.njit(lambda x: x + 1)
        theirs(1)
        kinds.append(type(next(iter(theirs.overloads.values())).library))

    threads = [threading.Thread(target=compile_theirs) for _ in range(2)]
    with late_library.late():
        for thread in threads:
            thread.start()
        time.sleep(0.05)  # they wait for numba's lock, which is ours
        assert not kinds
    for thread in threads:
        thread.join()
    assert kinds == [JITCodeLibrary] * 2


def test_results_are_the_same_with_numba_alone(tmp_path):
    """Without the optimisation, compiled and then read back; what others compile is numba's own either way."""
    miniature(tmp_path)
    result = "from steadyrank.simulator.simulate import play\nresult = play(4)\n"
    same_with_numba_alone(result, functools.partial(run_small, folder=tmp_path))


@pytest.mark.slow
def test_runs_are_the_same_with_numba_alone():
    same_with_numba_alone(
        """
import steadyrank as sr
attraction = np.random.default_rng(0).uniform(0, 0.6, 20)
result = sr.simulate("Random", attraction, length=3, horizon=300, seeds=[0]).regret.tobytes().hex()
"""
    )


def same_with_numba_alone(result, run=run):
    script = f"""
import numba
import numpy as np
{result}
from steadyrank.core.compiling import late_linking
theirs = numba.njit(lambda x: np.sqrt(x) + 1)
print(result, theirs(4.0), type(next(iter(theirs.overloads.values())).library).__name__)
print(late_linking.ACTIVE)
"""
    late, active = run(script)[0].splitlines()
    assert late.endswith(" 3.0 JITCodeLibrary")
    assert active == str(late_linking.ACTIVE)
    for _ in range(2):
        assert run(script, STEADYRANK_PLAIN_NUMBA="1")[0].splitlines() == [late, "False"]


@pytest.mark.parametrize(
    ("missing", "chosen"),
    [("", ""), ("version", ""), ("attribute", ""), ("attribute", "0"), ("name", "0"), ("wrong", ""), ("off", "1")],
)
def test_a_numba_that_looks_different_is_left_alone(monkeypatch, missing, chosen):
    monkeypatch.setenv("STEADYRANK_PLAIN_NUMBA", chosen)
    if missing == "version":
        monkeypatch.setattr(late_linking, "_TESTED", ((0, 1), (0, 2)))
    if missing == "attribute":
        monkeypatch.delattr(JITCodeLibrary, "get_pointer_to_function")
    if missing == "name":
        monkeypatch.setitem(sys.modules, late_library.__name__, None)
    if missing == "wrong":
        monkeypatch.setattr(late_library.LateLibrary, "_emit", late_library.JITCodeLibrary.finalize)
    expected = late_linking.ACTIVE if missing == "" else False
    assert late_linking._usable() is expected


def test_compiling_that_takes_long_is_announced(capsys):
    ticks = itertools.count(step=2)
    with announcing("this test", lambda: next(ticks)):
        assert jit.uncached(lambda x: x + 1)(1) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert first == "steadyrank: compiling this test, once on this machine: up to a minute, longer if it is busy ..."
    assert re.fullmatch(r"steadyrank: compiled in \d+ s, kept in .*", last)


def test_on_a_terminal_a_line_counts_the_seconds_of_compiling(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with announcing("this test", itertools.count(step=2).__next__):
        assert jit.uncached(lambda x: x + 4)(1) == 5
        assert jit.uncached(lambda x: x + 5)(1) == 6
    lines = capsys.readouterr().err.split("\r\x1b[K")
    counts = [int(found[1]) for line in lines if (found := re.search(r"\((\d+) s\) \.\.\.$", line))]
    assert counts == sorted(set(counts))
    assert len(counts) > 1
    assert lines[-1].startswith("steadyrank: compiled in ")
    assert lines[-1].endswith("\n")


def test_what_is_loaded_short_or_told_by_others_is_not_announced(capsys):
    heard = []
    with (
        jit.told_of_compiling(heard.append),
        unannounced(),
        announcing("this test", itertools.count(step=9).__next__),
    ):
        jit.uncached(lambda x: x + 2)(1)
    assert heard == [True, False]
    with announcing("this test", lambda: 0.0):
        jit.uncached(lambda x: x + 3)(1)
    with announcing("this test", itertools.count(step=9).__next__):
        pass
    assert capsys.readouterr().err == ""

"""Processes of the command line, started in a fraction of the usual time by forking one that imported everything.

Run as a script, it imports the service, loads the default learner, and then forks a process for each line of
standard input: arguments, environment and log file as JSON. It answers with the process id, and reports
each exit, all on standard output. The processes are real: they have their own memory, and can be killed.

With the argument `scripts` it imports only numba, nothing of ours, and forked processes run a Python script.
"""

import json
import os
import select
import signal
import subprocess
import sys

_DECIDES = ("NUMBA", "PYTHON", "STEADYRANK_CACHE", "STEADYRANK_PLAIN")  # prefixes of variables read at import


def _deciding(environment):
    return {name: value for name, value in environment.items() if name.startswith(_DECIDES)}


class Forked:
    """A forked process: the part of `subprocess.Popen` that tests use."""

    def __init__(self, nursery, pid):
        self._nursery, self.pid, self.returncode = nursery, pid, None

    def poll(self):
        return self.wait(0, raises=False)

    def wait(self, timeout=None, raises=True):
        if self.returncode is None:
            self.returncode = self._nursery.end_of(self.pid, timeout)
        if self.returncode is None and raises:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


class Nursery:
    """The forking process; it ends, with all its children, when its standard input is closed."""

    def __init__(self, *arguments):
        self._environment = _deciding(os.environ)
        self._ended, self._rest = {}, b""
        command = [sys.executable, __file__, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def suits(self, environment):
        """Whether a process with this environment would have the same imports."""
        return _deciding(environment) == self._environment

    def fork(self, arguments, environment, log, errors=None):
        """Start `steadyrank ARGUMENTS`, or a script with arguments; its output is appended to a file."""
        order = {"arguments": arguments, "environment": environment, "log": str(log), "folder": os.getcwd()}
        order["errors"] = str(errors or log)
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            kind, pid, code = self._read(None)
            if kind == "born":
                return Forked(self, pid)
            self._ended[pid] = code

    def end_of(self, pid, timeout):
        """Exit code of a process, as in `subprocess`; None if it still runs after `timeout` seconds."""
        while pid not in self._ended:
            said = self._read(timeout)
            if said is None:
                return None
            self._ended[said[1]] = said[2]
        return self._ended[pid]

    def _read(self, timeout):
        out = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([out], [], [], timeout)[0]:
                return None
            self._rest += (more := os.read(out, 65_536))
            assert more, "the nursery has ended"
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def _run_script(script, *arguments):
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    sys.argv, sys.dont_write_bytecode = ["-c", *arguments], True
    exec(script, {"__name__": "__main__"})
    return 0


def _live(order, main):
    """Turn a forked process into the command, and exit with its code."""
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    log, errors = (os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("log", "errors"))
    for place, file in enumerate((os.open(os.devnull, os.O_RDONLY), log, errors)):
        os.dup2(file, place)
    code = 1
    try:
        code = main(order["arguments"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say(*words):
    os.write(1, json.dumps(words).encode() + b"\n")


def _prepared_for_commands():
    import quick_compiling

    quick_compiling.compile_quickly()
    from steadyrank.cli import main
    from steadyrank.service.http.server import compile_ahead

    compile_ahead(lambda words: None)
    return main


def _prepared_for_scripts():
    import numba
    import numpy as np

    numba.njit(lambda x, y: x + y[0])(1, np.zeros(1))  # warm-up: numba's first compilation initializes much
    return lambda arguments: _run_script(*arguments)


def _main():
    main = _prepared_for_scripts() if sys.argv[1:] == ["scripts"] else _prepared_for_commands()
    ring, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    alive, orders = set(), b""
    while True:
        for ready in select.select([0, ring], [], [])[0]:
            if ready == ring:
                os.read(ring, 65_536)
                continue
            if not (more := os.read(0, 65_536)):
                for pid in alive:
                    os.kill(pid, signal.SIGKILL)
                while alive:
                    alive.discard(os.wait()[0])
                return
            orders += more
        while b"\n" in orders:
            order, _, orders = orders.partition(b"\n")
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _live(json.loads(order), main)
            alive.add(pid)
            _say("born", pid, None)
        for pid in sorted(alive):
            if (status := os.waitpid(pid, os.WNOHANG)) != (0, 0):
                alive.discard(pid)
                _say("over", pid, os.waitstatus_to_exitcode(status[1]))


if __name__ == "__main__":
    _main()

"""Try a wheel as a stranger would: python tests/try_wheel.py dist/steadyrank-*.whl [--constraints FILE].

Installs it with its base dependencies only, into an environment outside of the checkout, and runs there what the
README and the quick start show. Then its extras, of which it serves one request,
audits one log, and imports what needs servers of others.
"""

import argparse
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).parent.parent
NEEDS = {  # commands that need an extra, and which
    "serve": "service", "boards": "service", "reproduce --quick": "report", "report": "report", "results": "report",
    "compare own.py": "report", "profile build movielens --from . --out x.json": "report",
    "audit log.csv": "report",
}  # fmt: skip
MODULES = {  # what stands on an extra that needs a server of others to do anything
    "kafka": "steadyrank.streams.kafka", "redis": "steadyrank.streams.redis", "postgres": "psycopg",
    "otel": "opentelemetry.sdk.trace, opentelemetry.exporter.otlp.proto.http.trace_exporter",
}  # fmt: skip


def main() -> None:
    """Install, run, and say what was seen; ends with an error at the first thing that is not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--constraints", type=pathlib.Path, default=ROOT / "constraints.txt")
    options = parser.parse_args()
    wheel, limits = options.wheel.resolve(), options.constraints.resolve()
    with tempfile.TemporaryDirectory(prefix="steadyrank-wheel-") as name:
        folder = pathlib.Path(name)
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
        clean |= {"STEADYRANK_CACHE": str(folder / "cache")}
        run([sys.executable, "-m", "venv", "env"], folder, clean)
        python = folder / "env" / "bin" / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*install, "-c", limits, wheel], folder, clean)
        try_it(folder, python, clean)
        extras = ",".join(("report", "service", *MODULES))
        run([*install, "-c", limits, f"steadyrank[{extras}] @ {wheel.as_uri()}"], folder, clean)
        try_extras(folder, python, clean)
    print(f"{wheel.name}: installed and tried in an empty environment")


def try_it(folder: pathlib.Path, python: pathlib.Path, clean: dict[str, str]) -> None:
    """What a stranger does first."""
    where = run([python, "-c", "import steadyrank; print(steadyrank.__file__)"], folder, clean)
    assert where.strip().startswith(str(folder)), where
    freeze = run([python, "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"], folder, clean)
    packages = {line.partition("==")[0].lower() for line in freeze.splitlines()}
    print("installed:", ", ".join(sorted(packages - {"pip", "setuptools"})))
    assert packages <= {"steadyrank", "numpy", "numba", "llvmlite", "pip", "setuptools"}, packages
    steadyrank = python.parent / "steadyrank"
    print(run([steadyrank, "--version"], folder, clean).strip())
    for page in (ROOT / "README.md", ROOT / "docs" / "quick-start.md"):
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1):
            (folder / "block.py").write_text(block)
            said = run([python, "block.py"], folder, clean)
            assert said, f"block {number} of {page.name} says nothing"
            print(f"{page.name}, block {number}: {said.splitlines()[0]}")
    run([steadyrank, "simulate", "SteadyRank", "--horizon", "500", "--seeds", "1"], folder, clean)
    (folder / "log.csv").write_text("items,clicked\na|b,1\n")
    for command, extra in NEEDS.items():
        done = subprocess.run([steadyrank, *command.split()], cwd=folder, env=clean, capture_output=True, text=True)
        assert done.returncode == 2, f"steadyrank {command}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert f"pip install 'steadyrank[{extra}]'" in done.stderr, f"steadyrank {command}: {done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
    print("commands that need an extra name it:", ", ".join(NEEDS))


def try_extras(folder: pathlib.Path, python: pathlib.Path, clean: dict[str, str]) -> None:
    """What talks to others is imported; an audit of a small log, and a server that says it is ready."""
    run([python, "-c", "\n".join(f"import {name}" for name in MODULES.values())], folder, clean)
    versions = run([python, "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"], folder, clean)
    print("with extras:", ", ".join(versions.split()))
    steadyrank = python.parent / "steadyrank"
    rows = [f"{'b|a' if i % 2 else 'a|b'},{i % 3 // 2}" for i in range(300)]
    (folder / "log.csv").write_text("\n".join(["items,clicked", *rows]) + "\n")
    print("audit:", run([steadyrank, "audit", "log.csv", "--json"], folder, clean).splitlines()[0][:60])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([steadyrank, "serve", "--port", str(port)], cwd=folder, env=clean)
    try:
        for _ in range(6_000):  # the learner is compiled first, which a busy machine takes minutes for
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                    print("serve:", answer.status)
                    return
            except OSError:
                assert server.poll() is None, f"the server ended with {server.returncode}"
                time.sleep(0.1)
        raise SystemExit("the server was not ready within ten minutes")
    finally:
        server.terminate()
        server.wait(60)


def run(command: list[object], folder: pathlib.Path, clean: dict[str, str]) -> str:
    """What a command says; its errors end the trial."""
    done = subprocess.run(list(map(str, command)), cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()

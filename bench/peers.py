"""The same job with other libraries: python bench/peers.py [--seconds 10]. Part of `make bench`.

Each runs in its own virtual environment below build/peers, created on the first run. The libraries are more general
than ranking with cascade feedback; the numbers show what that generality costs here, not which library is good.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

from drawing import draw_bars, write_table

import steadyrank as sr

HERE = pathlib.Path(__file__).parent
HOME = HERE.parent / "build" / "peers"
PEERS = {
    "mabwiser": ["mabwiser==2.7.4"],
    "vowpalwabbit": ["vowpalwabbit==9.11.9", "numpy==1.26.4"],
    "smpybandits": ["SMPyBandits==0.9.7", "numpy==1.26.4", "scipy==1.12.0"],
}


def environment(name: str) -> str:
    """The Python executable of a peer's environment, which is created if missing."""
    python = HOME / name / "bin" / "python"
    ready = HOME / name / ".ready"
    if not ready.exists():
        print(f"making an environment for {name} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", HOME / name], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS[name]]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        ready.touch()
    return str(python)


def worker(name: str, path: pathlib.Path, seconds: str) -> dict[str, float] | None:
    """The measurements of a peer's process, or None after printing why there are none."""
    python = sys.executable if name in ("steadyrank", "numpy") else environment(name)
    command = [python, "-W", "ignore", HERE / "peer_worker.py", name, path, seconds]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{name:<14} failed: {done.stderr.strip().splitlines()[-1]}")
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    seconds = str(parser.parse_args().seconds)
    attraction = sr.profile("synthetic-spread").attraction
    versions = ", ".join(pins[0] for pins in PEERS.values())
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"Python calls, 500 items, lists of 10. {machine}, {versions}")
    print(f"{'':<14} {'rounds/s':>10} {'ratio':>8} {'rank p50':>10} {'p99':>9} {'feedback p50':>13} {'p99':>9} "
          f"{'MB':>6} {'import':>8} {'first':>8}")  # fmt: skip
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "attraction.json"
        path.write_text(json.dumps(attraction.tolist()))
        for name in ("steadyrank", "numpy", *PEERS):
            found = worker(name, path, seconds)
            if found is None:
                continue
            rows.append({"tool": name, **found})
            ratio = rows[0]["rounds_per_second"] / found["rounds_per_second"]
            micro = {key: 1e6 * found[key] for key in found if "_p" in key}
            print(
                f"{name:<14} {found['rounds_per_second']:10,.0f} {ratio:8.1f} "
                f"{micro['rank_p50']:7,.1f} us {micro['rank_p99']:6,.0f} us {micro['feedback_p50']:10,.1f} us "
                f"{micro['feedback_p99']:6,.0f} us {found['memory_mb']:6,.0f} {found['import']:6.2f} s "
                f"{found['first']:6.2f} s"
            )
    begin = time.perf_counter()
    sr.simulate("CascadeUCBV", attraction, length=10, horizon=1_000_000, seeds=[0], threads=1, marks=1)
    loop = 1_000_000 / (time.perf_counter() - begin)
    print(f"{'in the loop':<14} {loop:10,.0f}   steadyrank.simulator.simulate, users included")
    print(
        "The others do more general jobs than ranking with cascade feedback: this says what that costs here, no more."
    )
    write_table("peers", rows)
    draw_bars("peers", "Rounds a second, 500 items, lists of ten",
              {"steadyrank, simulated": loop, **{row["tool"]: row["rounds_per_second"] for row in rows}})  # fmt: skip


if __name__ == "__main__":
    main()

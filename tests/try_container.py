"""Try each step of the Containerfile where there is no container engine: python tests/try_container.py [FOLDER].

Needs root, mmdebstrap and a Debian mirror. The steps run one after another in a root file system in FOLDER (made by
mmdebstrap if it is empty), then the service is started in it as the image would: another user, a root file system
that cannot be written to, one volume. Packages for Python are fetched outside, by the settings of this machine.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).parent.parent
PORT = 8080
SOURCES = "/etc/apt/sources.list.d/debian.sources"


def instructions(text: str) -> list[tuple[str, str]]:
    """The lines of a Containerfile: a word and the rest."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def main() -> None:
    """Run the steps, start the service, ask it, end it; an error at the first thing that is not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=pathlib.Path, nargs="?", help="a root file system of Debian, or an empty folder"
    )
    given = parser.parse_args().folder
    steps = instructions((ROOT / "Containerfile").read_text())
    with tempfile.TemporaryDirectory(prefix="steadyrank-container-") as name:
        folder = pathlib.Path(name)
        root = given or folder / "root"
        root.mkdir(exist_ok=True)
        if not any(root.iterdir()):
            suite = next(rest for word, rest in steps if word == "FROM").rpartition(":")[2].removesuffix("-slim")
            run(["mmdebstrap", "--quiet", "--variant=apt", suite, root, SOURCES])
        fetch(root / "wheels")
        image = build(root, steps)
        try_it(root, folder, image)
    print("Containerfile: every step was run, and the service was started, asked and ended")


def run(command: list, **options) -> str:
    """Run a command; its output, or an end with it."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def fetch(wheels: pathlib.Path) -> None:
    """Everything that pip needs inside."""
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    builder = next(line for line in lines if line.startswith("requires = ")).split('"')[1]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "-d", wheels]
    run([*pip, "-c", ROOT / "constraints.txt", f"{ROOT}[postgres]", builder])


def build(root: pathlib.Path, steps: list[tuple[str, str]]) -> dict:
    """Run the steps; what the image says of how it is started."""
    image: dict = {"ENV": {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}}
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    for word, rest in steps:
        print(f"{word} {rest[:100]}", flush=True)
        if word == "RUN":
            within = image["ENV"] | {
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": "/wheels",
                "DEBIAN_FRONTEND": "noninteractive",
            }
            passed = [f"{name}={value}" for name, value in within.items()]
            run(["chroot", root, "env", "-i", *passed, "sh", "-ec", rest])
        elif word == "COPY":
            *given, target = rest.split()
            place = root / target.lstrip("/")
            for name in given:
                whole = (ROOT / name).is_dir()
                (place if target.endswith("/") or whole else place.parent).mkdir(parents=True, exist_ok=True)
                if whole:
                    skip = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, place, dirs_exist_ok=True, ignore=skip)
                else:
                    shutil.copy(ROOT / name, place)
        elif word == "ENV":
            name, _, value = rest.partition("=")
            image["ENV"][name] = value
        else:
            image[word] = rest
    shutil.rmtree(root / "wheels")
    return image


def started(root: pathlib.Path, volume: pathlib.Path, image: dict, command: str) -> list:
    """A command as a container would run it: its user, a root file system to read, a volume and a folder to write."""
    user = image["USER"]
    place = root / image["VOLUME"].lstrip("/")
    passed = " ".join(shlex.quote(f"{name}={value}") for name, value in image["ENV"].items())
    script = (
        f"mount --bind {root} {root} && mount --bind {volume} {place} && mount -t proc proc {root}/proc && "
        f"mount -t tmpfs tmpfs {root}/tmp && mount --rbind /dev {root}/dev && mount -o remount,ro,bind {root} && "
        f"exec chroot --userspec={user}:{user} {root} env -i {passed} {command}"
    )
    return ["unshare", "-m", "--propagation", "private", "sh", "-ec", script]


def try_it(root: pathlib.Path, folder: pathlib.Path, image: dict) -> None:
    """Keys, a start, what its health check says, a list and its answer, an end."""
    volume = folder / "volume"
    volume.mkdir()
    os.chown(volume, int(image["USER"]), int(image["USER"]))
    volume.chmod(0o755)
    folder.chmod(0o755)
    entry = json.loads(image["ENTRYPOINT"])
    serve = shlex.join([*entry, *json.loads(image["CMD"])])
    refused = subprocess.run(started(root, volume, image, serve), capture_output=True, text=True)
    assert refused.returncode == 2, refused
    assert "without API keys" in refused.stderr, refused
    key = run(started(root, volume, image, shlex.join([*entry, "keys", "create", "--scope", "admin"]))).split()[-1]
    for path in ("/etc/passwd", "/opt/steadyrank/new"):
        assert subprocess.run(started(root, volume, image, f"touch {path}"), capture_output=True).returncode != 0, (
            path
        )
    assert run(started(root, volume, image, "id -u")).strip() == image["USER"]
    process = subprocess.Popen(
        started(root, volume, image, serve), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        check = image["HEALTHCHECK"].partition(" CMD ")[2]
        wait_for(started(root, volume, image, check))
        ask("PUT", "boards/front", key, {"items": ["fig", "apple", "cherry"], "length": 2})
        shown = ask("POST", "boards/front/rank", key, {})
        answer = ask("POST", "boards/front/feedback", None, {"impression": shown["impression"], "clicked": None})
        print("asked:", shown["items"], answer["outcome"])
    finally:
        process.send_signal(getattr(signal, image["STOPSIGNAL"]))
        code = process.wait(40)
    assert code == 0, code
    assert (volume / "boards.db").stat().st_uid == int(image["USER"])


def wait_for(check: list) -> None:
    """Until the health check is content."""
    end = time.monotonic() + 90
    while subprocess.run(check, capture_output=True).returncode:
        assert time.monotonic() < end, "not healthy after 90 seconds"
        time.sleep(1)


def ask(method: str, path: str, key: str | None, body: dict) -> dict:
    """A request from outside."""
    headers = {"content-type": "application/json"} | ({} if key is None else {"authorization": f"Bearer {key}"})
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/{path}", json.dumps(body).encode(), headers, method=method
    )
    with contextlib.closing(urllib.request.urlopen(request, timeout=300)) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()

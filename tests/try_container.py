"""Try the Containerfile: python tests/try_container.py [--engine podman | FOLDER].

Needs root, mmdebstrap and a Debian mirror, but no registry. With `--engine` the image is built and run for real; its
base image is made by mmdebstrap where the machine has none of that name. Without, each step runs in a root file
system in FOLDER (made by mmdebstrap if it is empty), and the service is started in it as the image would be. Either
way: another user, a root file system that cannot be written to, one volume. Packages for Python are fetched outside,
by the settings of this machine.
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
    parser.add_argument("--engine", choices=["podman", "docker"], help="build the image and run it")
    options = parser.parse_args()
    steps = instructions((ROOT / "Containerfile").read_text())
    with tempfile.TemporaryDirectory(prefix="steadyrank-container-") as name:
        folder = pathlib.Path(name)
        if options.engine:
            container: Chroot | Engine = Engine(options.engine, folder, steps)
        else:
            root = options.folder or folder / "root"
            root.mkdir(exist_ok=True)
            if not any(root.iterdir()):
                run(["mmdebstrap", "--quiet", "--variant=apt", suite(steps), root, SOURCES])
            fetch(root / "wheels")
            container = Chroot(root, folder, build(root, steps))
        with contextlib.closing(container):
            try_it(container)
    print("Containerfile: every step was run, and the service was started, asked and ended")


def suite(steps: list[tuple[str, str]]) -> str:
    """Debian's name for what the image is based on."""
    return next(rest for word, rest in steps if word == "FROM").rpartition(":")[2].removesuffix("-slim")


def run(command: list, **options) -> str:
    """Run a command; its output, or an end with it."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def base_image(engine: str, folder: pathlib.Path, steps: list[tuple[str, str]]) -> None:
    """Make what the image is based on, where the machine has no image of that name."""
    base = next(rest for word, rest in steps if word == "FROM")
    if subprocess.run([engine, "image", "inspect", base], capture_output=True).returncode:
        run(["mmdebstrap", "--quiet", "--variant=apt", suite(steps), folder / "root.tar", SOURCES])
        run([engine, "import", folder / "root.tar", base])


def fetch(wheels: pathlib.Path) -> None:
    """Everything that pip needs inside."""
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    builder = next(line for line in lines if line.startswith("requires = ")).split('"')[1]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "-d", wheels]
    run([*pip, "-c", ROOT / "constraints.txt", f"{ROOT}[kafka,otel,postgres,redis]", builder])


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


class Chroot:
    """What a container would be, by the kernel's own means: a mount namespace, a volume, another user."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path, image: dict) -> None:
        self.root, self.image, self.volume = root, image, folder / "volume"
        self.volume.mkdir()
        os.chown(self.volume, int(image["USER"]), int(image["USER"]))
        self.volume.chmod(0o755)
        folder.chmod(0o755)

    def _within(self, words: list[str]) -> list:
        root, user = self.root, self.image["USER"]
        place = root / self.image["VOLUME"].lstrip("/")
        passed = " ".join(shlex.quote(f"{name}={value}") for name, value in self.image["ENV"].items())
        script = (
            f"mount --bind {root} {root} && mount --bind {self.volume} {place} && mount -t proc proc {root}/proc && "
            f"mount -t tmpfs tmpfs {root}/tmp && mount --rbind /dev {root}/dev && mount -o remount,ro,bind {root} && "
            f"exec chroot --userspec={user}:{user} {root} env -i {passed} {shlex.join(words)}"
        )
        return ["unshare", "-m", "--propagation", "private", "sh", "-ec", script]

    def once(self, *words: str, entry: bool = True) -> subprocess.CompletedProcess:
        """Run a command to its end: what the image starts with these words, or another program."""
        before = json.loads(self.image["ENTRYPOINT"]) if entry else []
        return subprocess.run(self._within([*before, *words]), capture_output=True, text=True)

    def start(self, *words: str) -> None:
        """Start the service."""
        quiet = subprocess.DEVNULL
        command = self._within([*json.loads(self.image["ENTRYPOINT"]), *words])
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet)

    def healthy(self) -> bool:
        """What the health check says."""
        check = self.image["HEALTHCHECK"].partition(" CMD ")[2]
        return self.once(*shlex.split(check), entry=False).returncode == 0

    def stop(self) -> int:
        """End the service as the image says; its code."""
        self.process.send_signal(getattr(signal, self.image["STOPSIGNAL"]))
        return self.process.wait(40)

    def close(self) -> None:
        """Nothing is left: the folder is temporary, and mounts end with their process."""


class Engine:
    """The image, built and run by podman or docker as docs/deploying.md says."""

    def __init__(self, engine: str, folder: pathlib.Path, steps: list[tuple[str, str]]) -> None:
        self.engine, self.name = engine, f"steadyrank-tried-{os.getpid()}"
        self.image = {word: rest for word, rest in steps if word not in ("RUN", "COPY", "ENV")}
        base_image(engine, folder, steps)
        fetch(folder / "wheels")
        (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        mounts = ["-v", f"{folder}/wheels:/wheels:ro", "-v", f"{folder}/pip.conf:/etc/pip.conf:ro"]
        command = [engine, "build", "--format", "docker", "--network", "host", *mounts, "-t", self.name, ROOT]
        print(run(command), flush=True)
        run([engine, "volume", "create", self.name])
        self.options = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
        self.options += ["--security-opt", "no-new-privileges", "-v", f"{self.name}:{self.image['VOLUME']}"]

    def once(self, *words: str, entry: bool = True) -> subprocess.CompletedProcess:
        """Run a command to its end: what the image starts with these words, or another program."""
        other = [] if entry else ["--entrypoint", words[0]]
        rest = words if entry else words[1:]
        command = [self.engine, "run", "--rm", *self.options, *other, self.name, *rest]
        return subprocess.run(command, capture_output=True, text=True)

    def start(self, *words: str) -> None:
        """Start the service."""
        port = ["-p", f"127.0.0.1:{PORT}:{self.image['EXPOSE']}"]
        run([self.engine, "run", "-d", "--name", self.name, *port, *self.options, self.name, *words])

    def healthy(self) -> bool:
        """What the health check says, asked now: podman without systemd has no clock to ask it by."""
        return subprocess.run([self.engine, "healthcheck", "run", self.name], capture_output=True).returncode == 0

    def stop(self) -> int:
        """End the service as the image says; its code."""
        run([self.engine, "stop", "-t", "40", self.name])
        return int(run([self.engine, "inspect", "-f", "{{.State.ExitCode}}", self.name]))

    def close(self) -> None:
        """Remove the container, its volume and the image."""
        for words in (["rm", "-f"], ["volume", "rm", "-f"], ["rmi", "-f"]):
            subprocess.run([self.engine, *words, self.name], capture_output=True)


def try_it(container: Chroot | Engine) -> None:
    """Keys, a start, what its health check says, a list and its answer, an end."""
    user, volume = container.image["USER"], container.image["VOLUME"]
    serve = json.loads(container.image["CMD"])
    refused = container.once(*serve)
    assert refused.returncode == 2, refused
    assert "without API keys" in refused.stderr, refused
    assert "boards.db" not in container.once("ls", volume, entry=False).stdout, "a refused start leaves a store"
    made = container.once("keys", "create", "--scope", "admin")
    assert made.returncode == 0, made
    key = made.stdout.split()[-1]
    for path in ("/etc/passwd", "/opt/steadyrank/new"):
        assert container.once("touch", path, entry=False).returncode != 0, path
    assert container.once("id", "-u", entry=False).stdout.strip() == user
    container.start(*serve)
    try:
        end = time.monotonic() + 300  # a first start compiles before it listens
        while not container.healthy():
            assert time.monotonic() < end, "not healthy after five minutes"
            time.sleep(1)
        ask("PUT", "boards/front", key, {"items": ["fig", "apple", "cherry"], "length": 2})
        shown = ask("POST", "boards/front/rank", key, {})
        answer = ask("POST", "boards/front/feedback", None, {"impression": shown["impression"], "clicked": None})
        print("asked:", shown["items"], answer["outcome"])
    finally:
        code = container.stop()
    assert code == 0, code
    owner = container.once("stat", "-c", "%u", f"{volume}/boards.db", entry=False)
    assert owner.stdout.strip() == user, owner


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

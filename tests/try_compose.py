"""Try compose.yml with podman-compose: python tests/try_compose.py.

Needs root, podman, podman-compose, mmdebstrap and a Debian mirror, but no registry; port 8080 has to be free. What is
run are the commands of docs/deploying.md, read from the page, in a copy of the source. Where the machine has no image
`postgres:17`, a stand-in of that name is made from Debian's packages: it takes the same variables, keeps its data in
the same folder and starts in the same two steps, but it is not the official image.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import urllib.request

import yaml

from try_container import PORT, ROOT, SOURCES, ask, base_image, fetch, instructions, run

DATABASE = "postgres:17"
SUITE = "trixie"  # the Debian that has this version
ENTRYPOINT = """#!/bin/sh
# A stand-in for the official image's entrypoint. Like it: not root for long, and at first on a socket alone.
set -e
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown postgres "$PGDATA" /run/postgresql
    chmod 700 "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf %s "$POSTGRES_PASSWORD" > /tmp/password
    initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 \\
        --encoding=UTF8 --locale=C.UTF-8
    rm /tmp/password
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    pg_ctl -o "-c listen_addresses=''" -w start
    createdb --username="$POSTGRES_USER" --maintenance-db=postgres "$POSTGRES_DB"
    pg_ctl -m fast -w stop
fi
exec "$@"
"""
STAND_IN = """FROM {root}
COPY --chmod=755 entrypoint /usr/local/bin/entrypoint
ENV PATH=/usr/lib/postgresql/17/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["/usr/local/bin/entrypoint"]
CMD ["postgres", "-c", "listen_addresses=*"]
"""


def main() -> None:
    """Make the images, start as the page says, ask, restart, end; an error at the first thing that is not right."""
    steps = instructions((ROOT / "Containerfile").read_text())
    with tempfile.TemporaryDirectory(prefix="steadyrank-compose-") as name, contextlib.ExitStack() as after:
        folder = pathlib.Path(name)
        base_image("podman", folder, steps)
        if not there(DATABASE):
            after.callback(remove, "rmi", "-f", DATABASE)
            stand_in(folder / "database")
        source = copy_of_source(folder / f"tried{os.getpid()}", steps)
        fetch(folder / "wheels")
        (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        compose = Compose(source, folder)
        after.callback(compose.close)
        try_it(compose)
    print("compose.yml: started as docs/deploying.md says, asked, restarted and ended")


def there(image: str) -> bool:
    """Whether the machine has an image of that name."""
    return subprocess.run(["podman", "image", "exists", image]).returncode == 0


def remove(*words: str) -> None:
    """Let podman remove something, if it is there."""
    subprocess.run(["podman", *words], capture_output=True)


def stand_in(folder: pathlib.Path) -> None:
    """Make an image with PostgreSQL from Debian's packages."""
    folder.mkdir()
    sources = folder / "debian.sources"
    sources.write_text(re.sub(r"\b(bookworm|trixie)\b", SUITE, pathlib.Path(SOURCES).read_text()))
    root = f"{DATABASE.partition(':')[0]}-root-{os.getpid()}"
    words = ["--quiet", "--variant=apt", "--include=postgresql-17", SUITE, folder / "root.tar", sources]
    run(["mmdebstrap", *words])
    run(["podman", "import", folder / "root.tar", root])
    (folder / "root.tar").unlink()
    (folder / "entrypoint").write_text(ENTRYPOINT)
    (folder / "Containerfile").write_text(STAND_IN.format(root=root))
    run(["podman", "build", "--format", "docker", "-t", DATABASE, folder])
    run(["podman", "untag", root])
    print(f"made a stand-in for {DATABASE}", flush=True)


def copy_of_source(folder: pathlib.Path, steps: list[tuple[str, str]]) -> pathlib.Path:
    """What the image is made of, and compose.yml; the folder's name is the project's."""
    folder.mkdir()
    copied = [name for word, rest in steps if word == "COPY" for name in rest.split()[:-1]]
    for name in ["compose.yml", "Containerfile", *copied]:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    return folder


def documented() -> list[str]:
    """The commands that docs/deploying.md gives for compose.yml."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "docs" / "deploying.md").read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if "podman-compose up" in block]
    return found.splitlines()


class Compose:
    """The services of compose.yml, by podman-compose in a folder."""

    def __init__(self, source: pathlib.Path, folder: pathlib.Path) -> None:
        self.source, self.project = source, source.name
        mounts = f"-v {folder}/wheels:/wheels:ro -v {folder}/pip.conf:/etc/pip.conf:ro"
        self._before = ["podman-compose", "--podman-build-args", f"--network host {mounts}"]

    def do(self, line: str) -> subprocess.CompletedProcess:
        """Run a command of the page; only the build gets its packages for Python from here."""
        words = shlex.split(line)
        command = [*self._before, *words[1:]] if words[0] == "podman-compose" else ["sh", "-ec", line]
        print(line, flush=True)
        return subprocess.run(command, cwd=self.source, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def container(self, service: str) -> str:
        """The name of a service's container."""
        return f"{self.project}_{service}_1"

    def within(self, service: str, *words: str) -> subprocess.CompletedProcess:
        """Run a program in a service's container."""
        return subprocess.run(["podman", "exec", self.container(service), *words], capture_output=True, text=True)

    def said(self, service: str, what: str) -> str:
        """What podman knows of a service's container."""
        return run(["podman", "inspect", "-f", f"{{{{{what}}}}}", self.container(service)]).strip()

    def wait(self, service: str) -> None:
        """Until its health check is content, asked now: podman without systemd has no clock to ask it by."""
        end = time.monotonic() + 300
        while subprocess.run(
            ["podman", "healthcheck", "run", self.container(service)], capture_output=True
        ).returncode:
            if time.monotonic() > end:
                words = run(["podman", "logs", "--tail", "20", self.container(service)])
                raise SystemExit(f"{service} is not healthy after five minutes:\n{words}")
            time.sleep(1)

    def rows(self, query: str) -> str:
        """What the database answers."""
        done = self.within("db", "psql", "-U", "steadyrank", "-d", "steadyrank", "-Atc", query)
        assert done.returncode == 0, done
        return done.stdout.strip()

    def close(self) -> None:
        """Remove containers, volumes, the network and the image."""
        services = yaml.safe_load((self.source / "compose.yml").read_text())
        for service in services["services"]:
            remove("rm", "-f", self.container(service))
        for volume in services["volumes"]:
            remove("volume", "rm", "-f", f"{self.project}_{volume}")
        remove("network", "rm", "-f", f"{self.project}_default")
        remove("rmi", "-f", f"{self.project}_rank")


def try_it(compose: Compose) -> None:
    """The page's commands, lists and answers, a restart in between, what is in the database, an end."""
    refused = compose.do("podman-compose up -d")
    assert refused.returncode != 0, refused
    assert "set it in .env" in refused.stderr, refused
    key = started(compose)
    guarded(compose)
    ask("PUT", "boards/front", key, {"items": ["fig", "apple", "cherry"], "length": 2})
    shown = [ask("POST", "boards/front/rank", key, {}) for _ in range(3)]
    for given in shown[:2]:
        answer(given)
    before = state(key)
    assert compose.rows("SELECT count(*) FROM boards") == "1"
    written = int(compose.rows("SELECT count(*) FROM events"))
    assert written >= 2, "answers are in PostgreSQL before they are acknowledged"
    compose.do("podman-compose restart -t 40 rank")
    assert compose.said("rank", ".State.Running") == "true"
    compose.wait("rank")
    assert state(key) == before, "a restart changes nothing"
    answer(shown[2])  # given out before the restart
    assert state(key) != before
    assert int(compose.rows("SELECT count(*) FROM events")) > written
    print("asked:", [given["items"] for given in shown], "events:", compose.rows("SELECT count(*) FROM events"))
    compose.do("podman-compose stop -t 40")
    for service in ("rank", "db"):
        assert compose.said(service, ".State.Status") == "exited", service
        assert compose.said(service, ".State.ExitCode") == "0", service


def started(compose: Compose) -> str:
    """Run the page's commands one after the other, and wait; the key that they make."""
    key = None
    for line in documented():
        done = compose.do(line)
        found = re.search(r"\bsr\.[0-9a-f]+\.[\w-]+", done.stdout)
        key = key or (found and found[0])
        assert done.returncode == 0, done
        assert "keys create" not in line or key, done
    assert key, "the page makes no key"
    for service in ("db", "rank"):
        compose.wait(service)
    return key


def guarded(compose: Compose) -> None:
    """Neither service runs as root, can write to its root or gain privileges."""
    for service, user in (("rank", "steadyrank"), ("db", "postgres")):
        users = run(["podman", "top", compose.container(service), "user"]).split()[1:]
        assert set(users) == {user}, users
        touched = compose.within(service, "touch", "/etc/new")
        assert "Read-only file system" in touched.stderr, touched
        assert "no-new-privileges" in compose.said(service, ".HostConfig.SecurityOpt"), service
    assert compose.said("rank", ".EffectiveCaps") == "[]"
    kept = compose.within("rank", "ls", "/var/lib/steadyrank").stdout.split()
    assert kept == ["compiled"], "no store but PostgreSQL"


def answer(given: dict) -> None:
    """Say that the first item of a list was clicked."""
    body = {"impression": given["impression"], "clicked": given["items"][0]}
    outcome = ask("POST", "boards/front/feedback", None, body)["outcome"]
    assert outcome in ("learnt", "waiting"), outcome


def state(key: str) -> dict:
    """What the board has learnt."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/boards/front/state", headers={"authorization": f"Bearer {key}"}
    )
    with contextlib.closing(urllib.request.urlopen(request, timeout=60)) as answered:
        return json.load(answered)


if __name__ == "__main__":
    main()

"""The Containerfile and the compose file: users, disks, health. try_container.py and try_compose.py run them."""

import json
import pathlib
import re

import pytest
import yaml

from steadyrank.cli import _parser
from try_container import instructions

ROOT = pathlib.Path(__file__).parent.parent
STEPS = instructions((ROOT / "Containerfile").read_text())
SERVICES = yaml.safe_load((ROOT / "compose.yml").read_text())["services"]


def said(word):
    return [rest for found, rest in STEPS if found == word]


def test_every_step_is_one_that_is_tried():
    known = {
        "FROM",
        "RUN",
        "COPY",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "HEALTHCHECK",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    assert {word for word, _ in STEPS} == known
    for rest in said("COPY"):
        assert all((ROOT / name).exists() for name in rest.split()[:-1]), rest


def test_the_image_runs_as_a_user_who_owns_nothing_but_its_volume():
    (user,) = said("USER")
    assert int(user) > 0
    assert f"--uid {user}" in " ".join(said("RUN"))
    names = [word for word, _ in STEPS]
    assert names.index("USER") > max(i for i, word in enumerate(names) if word == "RUN")
    (volume,) = said("VOLUME")
    env = dict(rest.split("=", 1) for rest in said("ENV"))
    assert env["STEADYRANK_CACHE"].startswith(volume)
    assert env["STEADYRANK_STORE"].startswith(f"sqlite:///{volume}")


def test_what_is_started_is_a_command_with_the_port_that_is_asked():
    (command,), (check,), (port,) = said("CMD"), said("HEALTHCHECK"), said("EXPOSE")
    assert json.loads(said("ENTRYPOINT")[0]) == ["steadyrank"]
    options = _parser().parse_args(json.loads(command))
    assert (options.host, options.port) == ("0.0.0.0", int(port))
    assert f"http://127.0.0.1:{port}/readyz" in check


@pytest.mark.parametrize("name", ["rank", "db"])
def test_services_cannot_write_to_their_root_or_gain_privileges(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    assert "/tmp" in service["tmpfs"]


def test_the_database_is_waited_for_and_nothing_is_open_to_others():
    rank, db = SERVICES["rank"], SERVICES["db"]
    assert rank["depends_on"]["db"]["condition"] == "service_healthy"
    assert "pg_isready -h 127.0.0.1 " in db["healthcheck"]["test"][1], "not the socket, which is there too early"
    (check,) = said("HEALTHCHECK")
    asked = rank["healthcheck"]
    options = f"--interval={asked['interval']} --timeout={asked['timeout']} --start-period={asked['start_period']}"
    assert check == f"{options} CMD {asked['test'][1]}"
    assert rank["cap_drop"] == ["ALL"]
    assert rank["ports"] == [f"127.0.0.1:{said('EXPOSE')[0]}:{said('EXPOSE')[0]}"]
    assert "ports" not in db
    store = rank["environment"]["STEADYRANK_STORE"]
    user, host, base = re.fullmatch(r"postgresql://(\w+):\$\{\w+:\?[^}]*\}@(\w+)/(\w+)", store).groups()
    assert (user, base) == (db["environment"]["POSTGRES_USER"], db["environment"]["POSTGRES_DB"])
    assert host in SERVICES
    for text in (store, db["environment"]["POSTGRES_PASSWORD"]):
        assert "${POSTGRES_PASSWORD:?" in text, "without a password nothing starts"

"""The manifests: valid for Kubernetes' own schemas, and true to the commands, ports and secrets that they name."""

import copy
import pathlib
import re
import subprocess

import kubernetes_validate
import pytest
import yaml

import steadyrank as sr
from steadyrank.cli import _parser
from steadyrank.service.http.app import Service
from steadyrank.service.worker.worker import Worker
from try_container import instructions

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "kubernetes"
MANIFESTS = {
    (part["kind"], part["metadata"]["name"]): part
    for file in sorted(FOLDER.glob("*.yaml"))
    for part in yaml.safe_load_all(file.read_text())
}
SETS = [part for (kind, _), part in MANIFESTS.items() if kind in ("Deployment", "StatefulSet")]
LABELS = {tuple(one["spec"]["template"]["metadata"]["labels"].items()) for one in SETS}
VERSIONS = ("1.30", kubernetes_validate.latest_version())  # the oldest that is meant, and the newest that is known


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", MANIFESTS, ids="/".join)
def test_each_manifest_is_valid(which, version):
    kubernetes_validate.validate(MANIFESTS[which], version, strict=True)


def test_a_mistyped_member_is_found():
    wrong = copy.deepcopy(MANIFESTS["Deployment", "steadyrank"])
    probe = wrong["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    probe["periodSecond"] = probe.pop("periodSeconds")
    with pytest.raises(kubernetes_validate.ValidationError, match="periodSecond"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_there_is_what_the_service_needs():
    kinds = {"Deployment", "StatefulSet", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Secret"}
    assert {kind for kind, _ in MANIFESTS} == kinds


def test_selectors_lead_to_pods_and_autoscalers_to_what_they_scale():
    assert len(LABELS) == len(SETS) == 2
    for (kind, _), part in MANIFESTS.items():
        if kind == "Service":
            assert tuple(part["spec"]["selector"].items()) in LABELS
        elif "selector" in part.get("spec", {}):
            assert tuple(part["spec"]["selector"]["matchLabels"].items()) in LABELS
        elif kind == "HorizontalPodAutoscaler":
            target = part["spec"]["scaleTargetRef"]
            assert (target["kind"], target["name"]) in MANIFESTS
    ingest = MANIFESTS["StatefulSet", "steadyrank-ingest"]["spec"]
    assert ("Service", ingest["serviceName"]) in MANIFESTS


@pytest.mark.parametrize("part", SETS, ids=lambda part: part["metadata"]["name"])
def test_containers_run_commands_that_exist_on_the_ports_that_are_asked(part, tmp_path):
    (container,) = part["spec"]["template"]["spec"]["containers"]
    options = _parser().parse_args(container["args"])
    assert container["image"] == f"steadyrank:{sr.__version__}"
    (port,) = container["ports"]
    listens = options.port if options.command == "serve" else int(options.metrics.rpartition(":")[2])
    assert port["containerPort"] == listens
    probes = [probe["httpGet"] for name, probe in container.items() if name.endswith("Probe")]
    assert {probe["port"] for probe in probes} == {port["name"]}
    if options.command == "serve":
        app = Service(Worker(f"sqlite:///{tmp_path}/store.db")).app()
        assert {probe["path"] for probe in probes} < {route.path for route in app.router.routes}
    else:
        assert {probe["path"] for probe in probes} == {"/metrics"}
        service = MANIFESTS["Service", "steadyrank"]
        assert options.server == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    secret = MANIFESTS["Secret", "steadyrank"]
    for variable in container["env"]:
        assert variable["valueFrom"]["secretKeyRef"]["name"] == secret["metadata"]["name"]
        assert variable["valueFrom"]["secretKeyRef"]["key"] in secret["stringData"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_workers_begin_with_what_was_compiled_when_the_image_was_built(tmp_path):
    """Where the image keeps compiled code there is a volume over it: it is filled before the worker starts."""
    pod = MANIFESTS["Deployment", "steadyrank"]["spec"]["template"]["spec"]
    (first,), (worker,) = pod["initContainers"], pod["containers"]
    assert first["image"] == worker["image"]
    env = dict(
        rest.split("=", 1) for word, rest in instructions((ROOT / "Containerfile").read_text()) if word == "ENV"
    )
    cache = pathlib.PurePath(env["STEADYRANK_CACHE"])
    (mount,) = first["volumeMounts"]
    assert mount in worker["volumeMounts"]
    assert mount["mountPath"] == str(cache.parent)
    page = (ROOT / "docs" / "workers.md").read_text()
    (kept,) = re.findall(r"^RUN STEADYRANK_CACHE=(\S+) steadyrank warm", page, re.MULTILINE)
    *shell, script = first["command"]
    built, volume = tmp_path / "built", tmp_path / "volume"
    volume.mkdir()
    script = script.replace(kept, str(built / cache.name)).replace(str(cache.parent), str(volume))
    subprocess.run([*shell, script], check=True)  # of an image without compiled code
    assert not any(volume.iterdir())
    (built / cache.name / "of this version").mkdir(parents=True)
    (built / cache.name / "of this version" / "a function.code").write_text("x")
    for _ in range(2):  # the container may be started again
        subprocess.run([*shell, script], check=True)
        assert [path.relative_to(volume) for path in volume.rglob("*.code")] == [
            pathlib.Path(cache.name) / "of this version" / "a function.code"
        ]

"""Make what a release consists of, and try it: make release.

Refuses a version that CHANGELOG.md and CITATION.cff do not name. Builds sdist and wheel, the wheel once more from the
sdist, checks their metadata, writes an SBOM (CycloneDX) and checksums, and tries the wheel in empty environments with
the lowest and the newest versions that it allows, on every supported Python of this machine. Everything lies in dist;
nothing is uploaded.
"""

import argparse
import hashlib
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile

from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The lowest versions that pyproject.toml allows, or the first after them with wheels for a Python.
_EVERYWHERE = [
    *("confluent-kafka==2.6.0", "crawler-user-agents==1.60", "msgspec==0.19.0", "polars==2.1.0"),
    *("opentelemetry-exporter-otlp-proto-http==1.30.0", "opentelemetry-sdk==1.30.0", "prometheus-client==0.21.0"),
    *("redis==5.2.0", "starlette==0.46.0", "uvicorn==0.34.0", "uvloop==0.21.0"),
]
LOWEST = {
    "3.11": [
        *_EVERYWHERE,
        "httptools==0.6.0",
        "matplotlib==3.9.0",
        "numba==0.60.0",
        "numpy==2.0.0",
        "psycopg==3.2.1",
    ],
    "3.12": [
        *_EVERYWHERE,
        "httptools==0.6.1",
        "matplotlib==3.9.0",
        "numba==0.60.0",
        "numpy==2.0.0",
        "psycopg==3.2.1",
    ],
    "3.13": [
        *_EVERYWHERE,
        "httptools==0.6.2",
        "matplotlib==3.9.2",
        "numba==0.61.0",
        "numpy==2.1.0",
        "psycopg==3.2.2",
    ],
}
UNTRIED = ("ray", "release", "dev")  # extras whose lowest versions are not tried


def version() -> str:
    """The package's version."""
    return str(runpy.run_path(str(ROOT / "src/steadyrank/core/version.py"))["__version__"])


def complaints(number: str, changes: str, citation: str, project: dict[str, object]) -> list[str]:
    """What has to be mended before this version can be released."""
    found = []
    if not re.search(rf"^## {re.escape(number)}, \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no part '## {number}, YYYY-MM-DD': give the unreleased part its date")
    cited = re.search(r"^version: (.+)$", citation, re.MULTILINE)
    if not cited or cited[1].strip() != number:
        found.append(f"CITATION.cff cites version {cited[1] if cited else 'none'}, not {number}")
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})  # type: ignore[assignment]
    asked: list[str] = list(project["dependencies"])  # type: ignore[call-overload]
    asked += [text for extra, needs in extras.items() if extra not in UNTRIED for text in needs]
    for text in asked:
        need = Requirement(text)
        for python, pins in LOWEST.items() if need.name != "steadyrank" else ():
            pin = next((Requirement(pin) for pin in pins if Requirement(pin).name == need.name), None)
            if pin is None:
                found.append(f"no lowest {need.name} is tried on Python {python}: LOWEST has to name it")
            elif not need.specifier.contains(str(pin.specifier).removeprefix("==")):
                found.append(f"the lowest {need.name} tried on Python {python} is {pin.specifier}, outside of {text}")
    return found


def run(*command: object, **more: object) -> None:
    """Run a command; its failure ends the release."""
    print("$", *command, flush=True)
    subprocess.run(list(map(str, command)), check=True, **more)  # type: ignore[call-overload]


def build(dist: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The wheel and the sdist; the sdist must make the same wheel."""
    shutil.rmtree(dist, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", dist, cwd=ROOT)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="steadyrank-sdist-") as name:
        with tarfile.open(sdist) as archive:
            archive.extractall(name, filter="data")
        (source,) = pathlib.Path(name).iterdir()
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name, cwd=source)
        (again,) = pathlib.Path(name).glob("*.whl")
        if again.read_bytes() != wheel.read_bytes():
            raise SystemExit(f"{sdist.name} makes another wheel than the checkout: {differences(wheel, again)}")
    return wheel, sdist


def differences(one: pathlib.Path, other: pathlib.Path) -> str:
    """The files in which two wheels differ."""
    contents = []
    for path in (one, other):
        with zipfile.ZipFile(path) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    names = sorted(set(contents[0]) | set(contents[1]))
    return ", ".join(name for name in names if contents[0].get(name) != contents[1].get(name)) or "order or times"


def check_metadata(wheel: pathlib.Path, number: str) -> None:
    """Refuse metadata that an index would refuse."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = Metadata.from_email(archive.read(name))
    if str(found.version) != number or found.description_content_type != "text/markdown" or not found.description:
        raise SystemExit(f"{wheel.name}: version {found.version}, {found.description_content_type}")
    print(f"{wheel.name}: metadata {found.metadata_version}, Python {found.requires_python}")


def write_bill(wheel: pathlib.Path, target: pathlib.Path) -> None:
    """The SBOM of the wheel with all that it needs to serve: of an environment made for it."""
    with tempfile.TemporaryDirectory(prefix="steadyrank-sbom-") as name:
        run(sys.executable, "-m", "venv", name)
        python = pathlib.Path(name) / "bin" / "python"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(*pip, "-c", ROOT / "constraints.txt", f"steadyrank[postgres,report] @ {wheel.resolve().as_uri()}")
        run(sys.executable, "-m", "cyclonedx_py", "environment", python, "--output-file", target, "--validate")


def pythons() -> dict[str, str]:
    """The supported versions of Python on this machine, and where they are."""
    found = {}
    for number in LOWEST:
        path = shutil.which(f"python{number}")
        works = path and subprocess.run([path, "-c", "import ensurepip"], capture_output=True).returncode == 0
        if path and works:
            found[number] = path
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return found | ({here: sys.executable} if here in LOWEST else {})


def try_everywhere(wheel: pathlib.Path) -> list[str]:
    """Try the wheel with the lowest and the newest versions on each Python; what was tried."""
    tried = []
    with tempfile.TemporaryDirectory(prefix="steadyrank-lowest-") as folder:
        for number, python in sorted(pythons().items()):
            lowest = pathlib.Path(folder) / number
            lowest.write_text("\n".join(LOWEST[number]) + "\n", encoding="utf-8")
            newest = pathlib.Path(os.devnull)
            for what, limits in (("lowest", lowest), ("newest", newest)):
                run(python, ROOT / "tests/try_wheel.py", wheel, "--constraints", limits)
                tried.append(f"Python {number} with the {what} versions")
    return tried


def main() -> None:
    """Build, check, try, and say how to upload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trial", action="store_true", help="do it all for a version that is not ready")
    parser.add_argument("--dist", type=pathlib.Path, default=ROOT / "dist")
    options = parser.parse_args()
    number = version()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff")]
    wrong = complaints(number, *texts, project)
    if wrong and not options.trial:
        raise SystemExit(
            "\n".join([f"steadyrank {number} is not ready:", *wrong, "`make release TRIAL=1` tries it all the same."])
        )
    wheel, sdist = build(options.dist)
    check_metadata(wheel, number)
    write_bill(wheel, options.dist / "sbom.cdx.json")
    tried = try_everywhere(wheel)
    files = [wheel, sdist, options.dist / "sbom.cdx.json"]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    (options.dist / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    print("\n".join([f"\nsteadyrank {number} was tried on", *tried]))
    for text in wrong:
        print(f"Not ready: {text}")
    if not wrong:
        here = options.dist.name
        print(f"To publish it: git tag v{number} && git push origin v{number}")
        print(f"or by hand: python -m twine upload {here}/{wheel.name} {here}/{sdist.name}")


if __name__ == "__main__":
    main()

"""Checks of packages by the tools of their registries, if installed, and by published rules if a registry's tools run
only on its servers. A check returns "ok", "open: ..." (a field that an environment variable must set), "not run: no
TOOL", or "FAILED: ..."."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple
from xml.etree import ElementTree

from package_files import MAINTAINER, ROOT, SCM, VERSION

# A virtual environment of Python and a folder of npm, in one, which .ci/run fills.
CHECKERS = Path(os.environ.get("CHECKERS", ROOT / "build/checkers"))
Check = Callable[[Path], str]


def tool(name: str) -> Optional[str]:
    path = os.pathsep.join([str(CHECKERS / "bin"), str(CHECKERS / "node_modules/.bin"), os.environ.get("PATH", "")])
    return shutil.which(name, path=path)


def by_tool(name: str, *arguments: str) -> Check:
    """A check by a tool that is given the package."""

    def check(package: Path) -> str:
        command = tool(name)
        if not command:
            return f"not run: no {name}"
        done = subprocess.run([command, *arguments, str(package)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return "ok" if done.returncode == 0 else f"FAILED: {done.stdout.strip()}"

    return check


def auditwheel(wheel: Path) -> str:
    """The tag of a wheel for Linux promises no older system than its library runs on."""
    command = tool("auditwheel")
    if "linux" not in wheel.name or not command:
        return "not run: " + ("no auditwheel" if "linux" in wheel.name else "only wheels for Linux")
    done = subprocess.run([command, "show", str(wheel)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.search(r'consistent with\s+the following platform tag: "(\w+)"', done.stdout)
    parts = lambda tag: re.fullmatch(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)", tag)  # noqa: E731
    has, needs = parts(wheel.stem.rpartition("-")[2]), found and parts(found[1])
    if done.returncode == 0 and has and needs and (has[1], has[4]) == (needs[1], needs[4]) and int(has[3]) >= int(needs[3]):
        return "ok"
    return f"FAILED: {done.stdout.strip()}"


def lintian(package: Path) -> str:
    """Lintian, on a copy without the static library, whose ten thousands of sections it takes minutes to read."""
    command = by_tool("lintian", "--fail-on", "error,warning")
    if not tool("lintian") or not package.name.startswith("librealizar-dev"):
        return command(package)
    with tempfile.TemporaryDirectory() as made:
        tree, copy = Path(made) / "tree", Path(made) / package.name
        subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
        archive = next(tree.glob("usr/lib/*/librealizar.a"))
        archive.unlink()
        sums = tree / "DEBIAN/md5sums"
        sums.write_text("".join(line for line in sums.read_text().splitlines(keepends=True) if not line.endswith("/librealizar.a\n")))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "-z0", "-b", tree, copy], check=True, stdout=subprocess.DEVNULL)
        return command(copy)


def validate_pyproject(sdist: Path) -> str:
    with tempfile.TemporaryDirectory() as made:
        shutil.unpack_archive(sdist, made)
        return by_tool("validate-pyproject")(next(Path(made).glob("*/pyproject.toml")))


def cyclonedx(bom: Path) -> str:
    """Checks the schema, and that the dependency graph names only components."""
    python = tool("python3") if (CHECKERS / "bin/python3").exists() else None
    if not python or subprocess.run([python, "-c", "import cyclonedx.validation.json"], stderr=subprocess.DEVNULL).returncode != 0:
        return "not run: no cyclonedx-python-lib"
    program = """import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()) and "it does not fit the schema")"""
    done = subprocess.run([python, "-c", program, str(bom)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = json.loads(bom.read_text())
    known = {part["bom-ref"] for part in [found["metadata"]["component"], *found["components"]]}
    named = {name for node in found["dependencies"] for name in [node["ref"], *node["dependsOn"]]}
    faults = [done.stdout.strip()] * (done.returncode != 0) + [f"dependencies name {name}" for name in sorted(named - known)]
    return result(faults + [f"nothing depends on {name}" for name in sorted(known - named)])


def result(faults: List[str], still_open: Tuple[str, ...] = ()) -> str:
    return f"FAILED: {'; '.join(faults)}" if faults else f"open: {', '.join(still_open)}" if still_open else "ok"


def central(pom: Path) -> str:
    """The requirements that Maven Central publishes, except for signatures."""
    faults = []
    for part in (".pom", ".jar", "-sources.jar", "-javadoc.jar"):
        file = pom.with_name(pom.stem + part)
        if not file.exists():
            faults.append(f"{file.name} is missing")
            continue
        for algorithm in ("md5", "sha1"):
            checksum = Path(f"{file}.{algorithm}")
            if not checksum.exists() or checksum.read_text() != hashlib.new(algorithm, file.read_bytes()).hexdigest():
                faults.append(f"{checksum.name} is missing or is another file's")
    project = ElementTree.fromstring(pom.read_bytes())
    text = lambda path: (project.findtext("/".join(f"{{*}}{name}" for name in path.split("/"))) or "").strip()  # noqa: E731
    required = ["modelVersion", "groupId", "artifactId", "version", "name", "description", "url", "licenses/license/name", "licenses/license/url"]
    faults += [f"the pom lacks {path}" for path in required if not text(path)]
    if text("version").endswith("-SNAPSHOT") or pom.stem != f"{text('artifactId')}-{text('version')}":
        faults.append(f"the version {text('version')} is not of the file")
    still_open = []
    for paths, given in ((("developers/developer/name", "developers/developer/email"), MAINTAINER),
                         (("scm/url", "scm/connection", "scm/developerConnection"), SCM)):  # fmt: skip
        missing = [path for path in paths if not text(path)]
        if missing and given:
            faults += [f"the pom lacks {path}" for path in missing]
        elif missing:
            still_open.append(paths[0].partition("/")[0])
    return result(faults, tuple(still_open))


def nuget(package: Path) -> str:
    """Checks the rules of NuGet's gallery for manifests, and the rule of packages for parts."""
    faults = []
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
        manifest = ElementTree.fromstring(archive.read("Realizar.nuspec"))
        field = lambda name: manifest.find(f"{{*}}metadata/{{*}}{name}")  # noqa: E731
        text = lambda name: (field(name).text or "") if field(name) is not None else ""  # noqa: E731
        faults += [f"the manifest lacks {name}" for name in ("authors", "projectUrl", "tags", "copyright") if not text(name)]
        checks = {
            "id": re.fullmatch(r"\w+([.-]\w+)*", text("id")) and len(text("id")) <= 100,
            "version": text("version") == VERSION,
            "description": 0 < len(text("description")) <= 4000,
            "license": field("license") is not None and field("license").get("type") == "expression",
            "readme": text("readme") in names and 0 < archive.getinfo(text("readme")).file_size < 1_000_000,
        }
        faults += [f"{name} of the manifest is {text(name)!r}" for name, holds in checks.items() if not holds]
        types = ElementTree.fromstring(archive.read("[Content_Types].xml"))
        known = {node.get("Extension") for node in types} | {node.get("PartName") for node in types}
        faults += [f"{name} has no content type" for name in names if name.rpartition(".")[2] not in known and f"/{name}" not in known and name[0] != "["]
        target = ElementTree.fromstring(archive.read("_rels/.rels"))[0].get("Target")
        if target != "/Realizar.nuspec":
            faults.append(f"the manifest of the package is {target}")
        for name in names:
            if name.startswith("lib/") and name.endswith(".dll"):
                if f"{name[:-4]}.xml" not in names:
                    faults.append(f"{name} has no documentation")
                if "/netstandard" in name and b"\0netstandard\0" not in archive.read(name):
                    faults.append(f"{name} is not for .NET Standard")
    repository = field("repository")
    if SCM and (repository is None or repository.get("url") != SCM):
        faults.append("the manifest lacks the repository")
    return result(faults, () if SCM else ("repository",))


def vcpkg(package: Path) -> str:
    """vcpkg's own formatting of the manifest, which refuses what its schema does."""
    if not tool("vcpkg"):
        return "not run: no vcpkg"
    with tempfile.TemporaryDirectory() as made:
        shutil.unpack_archive(package, made)
        return by_tool("vcpkg", "format-manifest", "--disable-metrics")(Path(made) / "realizar/vcpkg.json")


# Checks by patterns of names; the first pattern that matches counts.
CHECKS: List[Tuple[str, Dict[str, Check]]] = [
    ("*.whl", {"twine": by_tool("twine", "check", "--strict"), "check-wheel-contents": by_tool("check-wheel-contents"), "auditwheel": auditwheel}),
    (f"realizar-{VERSION}.tar.gz", {"twine": by_tool("twine", "check", "--strict"), "validate-pyproject": validate_pyproject}),
    ("*-npm.tgz", {"publint": by_tool("publint", "--strict"), "attw": by_tool("attw", "--no-emoji", "--no-color")}),
    ("*-npm-*.tgz", {"publint": by_tool("publint", "--strict")}),
    ("*.pom", {"Central's rules": central}),
    ("*.nupkg", {"NuGet's rules": nuget}),
    ("*.deb", {"lintian": lintian}),
    ("*.cdx.json", {"cyclonedx": cyclonedx}),
    ("conanfile.py", {"conan": by_tool("conan", "inspect")}),
    ("*-vcpkg.zip", {"vcpkg": vcpkg}),
    ("*.rb", {"ruby": by_tool("ruby", "-c")}),
]


def check(package: Path) -> Dict[str, str]:
    """The results of all checks of a package, by the names of the checkers."""
    checks = next((checks for pattern, checks in CHECKS if package.match(pattern)), {})
    return {name: check(package) for name, check in checks.items()}

"""Python packages: a wheel per system, and the sources, from which pip builds a wheel with cargo."""

import base64
import hashlib
import json
import re
from email.parser import Parser
from pathlib import Path
from typing import Iterator, List

from package_files import MAIL, MAINTAINER, ROOT, VERSION, File, Files, Stage, folder, own_licenses, read, template, write_tar_gz, write_zip

PACKAGE = ROOT / "bindings/python"
SYSTEMS = {"linux": "POSIX :: Linux", "darwin": "MacOS", "windows": "Microsoft :: Windows"}


def metadata(licenses: List[str], kernels: List[str]) -> bytes:
    systems = "\n".join(f"Classifier: Operating System :: {SYSTEMS[kernel]}" for kernel in kernels)
    person = f"{MAINTAINER} <{MAIL}>" if MAINTAINER else ""
    head = template("METADATA", LICENSES="\n".join(f"License-File: {name}" for name in licenses), SYSTEMS=systems, PERSON=person)
    return head + (PACKAGE / "README.md").read_bytes()


def modules(prefix: str) -> Files:
    return {prefix + name: file for name, file in folder(PACKAGE / "realizar", "*.py", "py.typed").items()}


def packages(out: Path, stages: List[Stage]) -> Iterator[Path]:
    for stage in stages:
        info, tag = f"realizar-{VERSION}.dist-info", f"py3-none-{stage.system.wheel}"
        licenses = stage.licenses(f"{info}/licenses/")
        files = {**modules("realizar/"), f"realizar/{stage.system.library}": stage.library, **licenses}
        files[f"{info}/METADATA"] = File(metadata([Path(name).name for name in licenses], [stage.system.kernel]))
        files[f"{info}/WHEEL"] = File(f"Wheel-Version: 1.0\nGenerator: realizar\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        record = ""
        for name, file in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(file.data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(file.data)}\n"
        files[f"{info}/RECORD"] = File(f"{record}{info}/RECORD,,\n".encode())
        yield write_zip(out / f"realizar-{VERSION}-{tag}.whl", files)
    yield sources(out)


def sources(out: Path) -> Path:
    """What cargo builds the library of, the package, and a manifest that is made of the same metadata as wheels'."""
    about = metadata(sorted(own_licenses()), list(SYSTEMS))
    fields = Parser().parsestr(about.decode(), headersonly=True)
    listed = lambda name: json.dumps(fields.get_all(name), indent=4)  # noqa: E731
    values = {"PYTHON": fields["Requires-Python"], "CLASSIFIERS": listed("Classifier"), "DEPENDENCIES": listed("Requires-Dist")}
    project = template("pyproject.toml", **values)
    # Tests and benchmarks are not there.
    manifest = re.sub(r"^\[\[(?:test|bench)\]\]\n(?:.+\n)+\n?", "", (ROOT / "Cargo.toml").read_text(), flags=re.M)
    patterns = ("Cargo.lock", "README.md", "build*.rs", "cbindgen.toml", "include/*", "kernels/**/*", "packaging/hatch_build.py", "src/**/*")
    inputs = folder(ROOT, *patterns)
    files = {
        **inputs, **own_licenses(), **modules("bindings/python/realizar/"),
        "bindings/python/README.md": read(PACKAGE / "README.md"),
        "Cargo.toml": File(manifest.encode()), "pyproject.toml": File(project), "PKG-INFO": File(about),
    }  # fmt: skip
    return write_tar_gz(out / f"realizar-{VERSION}.tar.gz", files, f"realizar-{VERSION}/")

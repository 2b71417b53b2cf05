"""Debian packages: the shared library, and the development files."""

import gzip
import hashlib
import re
import tempfile
from email.utils import formatdate
from pathlib import Path
from typing import Iterator, List

import package_files as common
from package_files import EPOCH, HOMEPAGE, MAIL, MAINTAINER, ROOT, SCM, VERSION, File, Files, Stage, call, folder, read, template, write_folder

# A package has to have a maintainer; scripts/release demands one.
PERSON = f"{MAINTAINER} <{MAIL}>" if MAINTAINER else "realizar <maintainer@realizar.invalid>"
RUNTIME, SHARED, SONAME = f"librealizar{common.ABI}", f"librealizar.so.{VERSION}", f"librealizar.so.{common.ABI}"
TEXTS = {
    RUNTIME: ("shared library", "This package has the shared library that programs need to run."),
    "librealizar-dev": ("development files", "This package has the headers for C and C++, the static library, and the\n"
                        " files of pkg-config and CMake."),
}  # fmt: skip


def stripped(library: bytes) -> File:
    """The library without the symbols that only debuggers read, for any processor."""
    details = call("rustc", "-vV")
    sysroot, host = Path(call("rustc", "--print", "sysroot").strip()), re.search("^host: (.*)", details, re.M)[1]
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "library"
        file.write_bytes(library)
        call(sysroot / f"lib/rustlib/{host}/bin/rust-objcopy", "--strip-unneeded", "--remove-section=.comment", file, LD_LIBRARY_PATH=str(sysroot / "lib"))
        return File(file.read_bytes())


def symbols() -> str:
    """The exported functions, each with its version node and the release that added it."""
    text = f"{SONAME} {RUNTIME} #MINVER#\n* Build-Depends-Package: librealizar-dev\n"
    names = []
    for node, body in re.findall(r"^(REALIZAR_[\d.]+) \{(.*?)^\}", (ROOT / "packaging/realizar.map").read_text(), re.M | re.S):
        since = node.partition("_")[2] + ".0"
        names += [f" {name}@{node} {since}\n" for name in [node, *re.findall(r"^ *(rz_\w+);", body, re.M)]]
    return text + "".join(sorted(names))


def documents(package: str, stage: Stage) -> Files:
    expat = (ROOT / "LICENSE-MIT").read_text().partition("\n\n")[2].partition("\n\n")[2]
    expat = "\n".join(f" {line.strip() or '.'}" for line in expat.strip().splitlines())
    values = {"PERSON": PERSON, "SOURCE": SCM or HOMEPAGE, "EXPAT": expat, "DATE": formatdate(EPOCH).replace("-0000", "+0000")}
    notices = next(file for name, file in stage.inventory.items() if name.endswith("/THIRD-PARTY"))
    place = f"usr/share/doc/{package}"
    return {
        f"{place}/copyright": File(template("copyright", **values)),
        f"{place}/changelog.gz": File(gzip.compress(template("changelog", **values), 9, mtime=0)),
        f"{place}/THIRD-PARTY": notices,
    }


def packages(out: Path, stages: List[Stage]) -> Iterator[Path]:
    for stage in stages:
        if stage.system.libc != "gnu":
            continue
        lib = f"usr/lib/{'aarch64' if stage.system.arm else 'x86_64'}-linux-gnu"
        library = stripped(stage.library.data)
        needs = f"libc6 (>= 2.{stage.system.glibc})" + ", libgcc-s1 (>= 4.2)" * (b"libgcc_s.so.1" in library.data)
        configured = {f"usr/{name}": file for name, file in common.configuration(stage.system, lib[len("usr/") :]).items()}
        headers = {f"usr/{name}": file for name, file in folder(stage.path, "include/*").items()}
        archive = {f"{lib}/librealizar.a": read(stage.path / "lib/librealizar.a"), f"{lib}/librealizar.so": File(link=SONAME)}
        yield package(out, stage, RUNTIME, {f"{lib}/{SHARED}": library, f"{lib}/{SONAME}": File(link=SHARED)}, "libs", needs)
        yield package(out, stage, "librealizar-dev", {**configured, **headers, **archive}, "libdevel", f"{RUNTIME} (= {VERSION})")


def package(out: Path, stage: Stage, name: str, contents: Files, section: str, depends: str) -> Path:
    files = {**contents, **documents(name, stage)}
    synopsis, text = TEXTS[name]
    control = {
        "PACKAGE": name, "ARCHITECTURE": "arm64" if stage.system.arm else "amd64", "SECTION": section, "DEPENDS": depends, "PERSON": PERSON,
        "SIZE": str(sum(-(-len(file.data) // 1024) for file in files.values())), "SYNOPSIS": synopsis, "TEXT": text,
    }  # fmt: skip
    sums = "".join(f"{hashlib.md5(file.data).hexdigest()}  {path}\n" for path, file in sorted(files.items()) if not file.link)
    files.update({"DEBIAN/control": File(template("control", **control)), "DEBIAN/md5sums": File(sums.encode())})
    if name == RUNTIME:
        files["DEBIAN/triggers"] = File(b"activate-noawait ldconfig\n")
        files["DEBIAN/shlibs"] = File(f"librealizar {common.ABI} {RUNTIME} (>= {VERSION})\n".encode())
        files["DEBIAN/symbols"] = File(symbols().encode())
    target = out / f"{name}_{VERSION}_{control['ARCHITECTURE']}.deb"
    with tempfile.TemporaryDirectory() as tree:
        write_folder(Path(tree), files)
        for path in [*Path(tree).rglob("*"), Path(tree)]:
            if path.is_dir():
                path.chmod(0o755)
        options = ("--root-owner-group", "--threads-max=1", "-Zxz", "-z2", "--build")
        call("dpkg-deb", *options, tree, target, SOURCE_DATE_EPOCH=str(EPOCH))
    return target

"""Common parts of all packages of a release: version, licenses, names of systems, files of an installation, and
reproducible archives."""

import gzip
import importlib.util
import io
import json
import os
import re
import subprocess
import tarfile
import time
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
HEADER = (ROOT / "include/realizar.h").read_text()
ABI = re.search(r"^#define RZ_ABI_VERSION (\d+)", HEADER, re.M)[1]


def _field(name: str) -> str:
    return re.search(rf'^{name} = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


VERSION, DESCRIPTION, LICENSE, HOMEPAGE = (_field(name) for name in ("version", "description", "license", "homepage"))
# Where a release has its files, for recipes that fetch them.
RELEASES = f"{HOMEPAGE}/releases/v{VERSION}"
# Words by which registries find the packages.
KEYWORDS = ["llm", "inference", "gguf", "safetensors", "embeddings"]


def _variable(name: str, form: str, condition: str) -> List[str]:
    """The parts of an environment variable; empty if it is unset."""
    text = os.environ.get(name, "")
    found = re.fullmatch(form, text)
    if text and not found:
        raise SystemExit(f"FAILED: {name} is {text!r}; it must be {condition}")
    return list(found.groups()) if found else [""] * re.compile(form).groups


# Required by registries, but not in this tree: the maintainer, and the location of the sources.
MAINTAINER, MAIL = _variable("REALIZAR_MAINTAINER", r'([^<>"]*[^<>" ]) <([^<>"\s@]+@[^<>"\s@]+)>', '"Name <mail>"')
(SCM,) = _variable("REALIZAR_SCM", r'(https://[^\s"<>]+)', "an https URL")


def _git(form: str) -> str:
    """Returns a property of the commit from git; empty outside a repository."""
    try:
        command = ["git", "log", "-1", f"--format={form}"]
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


COMMIT = _git("%H")
# Time of every file in a package: SOURCE_DATE_EPOCH, the commit's time, or the earliest time of zip files.
EPOCH = max(int(os.environ.get("SOURCE_DATE_EPOCH") or _git("%ct") or 0), 315532800)


# Cargo features of the library besides the defaults, with commas, such as wgpu: FEATURES of the Makefile.
FEATURES = os.environ.get("REALIZAR_FEATURES", "")
WITH_FEATURES = ["--features", FEATURES] if FEATURES else []
HAS_WGPU = "wgpu" in FEATURES.split(",")


class Skipped(Exception):
    """The reason why a package cannot be built here."""


def call(*command: object, quiet: bool = False, **environment: str) -> str:
    """Runs a tool; a missing tool, or exit status 77, skips the package. If `quiet`, shows messages only on failure."""
    try:
        errors = subprocess.STDOUT if quiet else None
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=errors, text=True)
    except FileNotFoundError:
        raise Skipped(f"there is no {command[0]}") from None
    if done.returncode == 77:
        raise Skipped(done.stdout.strip().rpartition("because ")[2])
    if done.returncode != 0:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


@dataclass
class File:
    """An entry of a package: a file, or a symbolic link to `link`."""

    data: bytes = b""
    executable: bool = False
    link: str = ""


Files = Dict[str, File]


def read(path: Path) -> File:
    return File(link=os.readlink(path)) if path.is_symlink() else File(path.read_bytes(), os.access(path, os.X_OK))


def folder(path: Path, *patterns: str) -> Files:
    """The files below a folder that match a pattern, by their names below it."""
    found = {file for pattern in patterns or ("**/*",) for file in path.glob(pattern) if file.is_symlink() or file.is_file()}
    return {file.relative_to(path).as_posix(): read(file) for file in sorted(found)}


def own_licenses(prefix: str = "") -> Files:
    return {prefix + name: file for name, file in folder(ROOT, "LICENSE*").items()}


def write_tar_gz(path: Path, files: Files, prefix: str = "") -> Path:
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=EPOCH) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, file in sorted(files.items()):
                info = tarfile.TarInfo(prefix + name)
                info.mtime, info.mode, info.size = EPOCH, 0o755 if file.executable else 0o644, len(file.data)
                if file.link:
                    info.type, info.linkname, info.mode = tarfile.SYMTYPE, file.link, 0o777
                archive.addfile(info, io.BytesIO(file.data))
    return path


def write_zip(path: Path, files: Files, prefix: str = "") -> Path:
    """Symbolic links are left out, because few programs read them in zip files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in files.items():
            if not file.link:
                entry = zipfile.ZipInfo(prefix + name, time.gmtime(EPOCH)[:6])
                entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
                entry.external_attr = (0o100755 if file.executable else 0o100644) << 16
                archive.writestr(entry, file.data)
    return path


def write_folder(path: Path, files: Files) -> None:
    for name, file in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            target.symlink_to(file.link)
            continue
        target.write_bytes(file.data)
        target.chmod(0o755 if file.executable else 0o644)


def template(name: str, **values: str) -> bytes:
    """A file of packaging/ with the values of @NAME@, including the values common to all packages. A line with an empty
    value is left out."""
    values = {
        "VERSION": VERSION, "DESCRIPTION": DESCRIPTION, "LICENSE": LICENSE, "HOMEPAGE": HOMEPAGE, "RELEASES": RELEASES,
        "MAINTAINER": MAINTAINER, "MAIL": MAIL, "SCM": SCM, "KEYWORDS": ",".join(KEYWORDS), "WORDS": " ".join(KEYWORDS),
        "QUOTED_KEYWORDS": json.dumps(KEYWORDS), **values,
    }  # fmt: skip
    if name.endswith(("xml", "nuspec")):
        values = {key: escape(value) for key, value in values.items()}
    lines = (ROOT / "packaging" / f"{name}.in").read_text().splitlines(keepends=True)
    kept = [line for line in lines if all(values[key] for key in re.findall("@([A-Z_]+)@", line))]
    return re.sub("@([A-Z_]+)@", lambda found: values[found[1]], "".join(kept)).encode()


class System(NamedTuple):
    """A system, as a built library names it, and what the ecosystems call it."""

    kernel: str
    arm: bool
    libc: str  # "gnu", "musl"; of other systems ""
    glibc: int  # the minor version that the library asks for

    @property
    def triple(self) -> str:
        machine = "aarch64" if self.arm else "x86_64"
        vendor = {"linux": f"unknown-linux-{self.libc}", "darwin": "apple-darwin", "windows": "pc-windows-gnu" + "llvm" * self.arm}
        return f"{machine}-{vendor[self.kernel]}"

    @property
    def rid(self) -> str:
        """The name in .NET, which the Java package uses too."""
        names = {"linux": "linux-musl" if self.libc == "musl" else "linux", "darwin": "osx", "windows": "win"}
        return f"{names[self.kernel]}-{'arm64' if self.arm else 'x64'}"

    @property
    def node(self) -> str:
        """Node's names of the system and of the processor."""
        kernel = "win32" if self.kernel == "windows" else self.kernel
        return f"{kernel}-{'arm64' if self.arm else 'x64'}"

    @property
    def wheel(self) -> str:
        machine = "aarch64" if self.arm else "x86_64"
        if self.kernel == "linux":
            return f"musllinux_1_2_{machine}" if self.libc == "musl" else f"manylinux_2_{max(self.glibc, 17)}_{machine}"
        if self.kernel == "darwin":
            return "macosx_11_0_arm64" if self.arm else "macosx_10_12_x86_64"
        return "win_arm64" if self.arm else "win_amd64"

    @property
    def library(self) -> str:
        """The name under which bindings open the library."""
        return {"linux": "librealizar.so", "darwin": "librealizar.dylib", "windows": "realizar.dll"}[self.kernel]


def system_of(library: bytes) -> System:
    if library[:4] == b"\x7fELF":
        versions = [int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", library)]
        return System("linux", library[18] == 0xB7, "gnu" if versions else "musl", max(versions, default=0))
    if library[:2] == b"MZ":
        header = int.from_bytes(library[60:64], "little")
        return System("windows", library[header + 4 : header + 6] == b"\x64\xaa", "", 0)
    if library[:4] == b"\xcf\xfa\xed\xfe":
        return System("darwin", library[4:8] == b"\x0c\0\0\x01", "", 0)
    raise SystemExit("FAILED: a library is neither ELF nor PE nor Mach-O")


class Stage:
    """A folder as `make install` fills it, of one system."""

    def __init__(self, path: Path) -> None:
        found = [file for file in [*path.glob("lib/librealizar*"), *path.glob("bin/realizar.dll")] if not file.is_symlink()]
        shared = [file for file in found if file.suffix != ".a"]
        if len(shared) != 1:
            raise SystemExit(f"FAILED: {path} has {len(shared)} shared libraries, where one is expected")
        self.path, self.library = path, read(shared[0])
        self.library.executable = False
        self.system = system_of(self.library.data)
        self.inventory = inventory(self.system.triple, linked_into(self.system, self.library.data))

    def files(self) -> Files:
        return {**folder(self.path), **self.inventory}

    def licenses(self, prefix: str = "") -> Files:
        """The licenses of all that is in the library."""
        return {prefix + Path(name).name: file for name, file in self.inventory.items() if "share/licenses/" in name}


def configuration(system: System, lib: str = "lib") -> Files:
    """Returns the files that pkg-config and CMake read, for a library in a folder below the prefix."""
    windows = system.kernel == "windows"
    dotted = {"linux": "librealizar.so.{}", "darwin": "librealizar.{}.dylib", "windows": "../bin/realizar.dll"}[system.kernel]
    frameworks = " -framework Metal -framework QuartzCore -framework CoreGraphics -framework IOSurface -framework Foundation -framework CoreFoundation -lobjc"
    values = {
        "LIBDIR": lib, "SHARED": dotted.format(VERSION), "SONAME": dotted.format(ABI), "UP": re.sub("[^/]+", "..", lib),
        "PRIVATE_LIBS": "-lpthread -ldl -lm" if system.kernel == "linux" else "" if windows else "-lpthread -lm" + frameworks * HAS_WGPU,
    }  # fmt: skip
    files = {}
    for name in ("pkgconfig/realizar.pc", "cmake/realizar/realizarConfig.cmake", "cmake/realizar/realizarConfigVersion.cmake"):
        data = template(Path(name).name, **values)
        if windows:
            data = data.replace(b'IMPORTED_SONAME "../bin/realizar.dll"', b'IMPORTED_IMPLIB "${_realizar_prefix}/lib/realizar.lib"')
        files[f"{lib}/{name}"] = File(data)
    return files


# Code that linkers add to a shared library: its license, and possible locations of the license text.
LINKED = {
    "libunwind": ("Apache-2.0 WITH LLVM-exception", "{zig}/lib/libunwind/LICENSE.TXT"),
    "mingw-w64": ("ZPL-2.1", "/usr/share/doc/mingw-w64-x86-64-dev/copyright"),
    "libgcc": ("GPL-3.0-or-later WITH GCC-exception-3.1", "/usr/share/doc/gcc-mingw-w64-x86-64-win32-runtime/copyright"),
}


# The license of a crate that names none and has a file of it.
UNSAID = "see its file"


def linked_into(system: System, library: bytes) -> List[str]:
    if system.kernel == "windows":
        return ["mingw-w64", "libgcc"]
    # zig has an unwinder in place of gcc's.
    return ["libunwind"] if system.kernel == "linux" and b"\0libgcc_s.so.1\0" not in library else []


def crates(triple: str) -> Dict[str, dict]:
    """The packages that are compiled into the library, by id, in the order of their names; each has the ids of those
    that it uses in "uses"."""
    arguments = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple, *WITH_FEATURES]
    metadata = json.loads(subprocess.run(arguments, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    uses: Dict[str, List[str]] = {}
    left = [metadata["resolve"]["root"]]
    while left:
        package = left.pop()
        if package not in uses:
            kinds = {dep["pkg"]: [kind["kind"] for kind in dep["dep_kinds"]] for dep in nodes[package]["deps"]}
            uses[package] = [other for other, found in kinds.items() if None in found]
            left += uses[package]
    found = sorted((package for package in metadata["packages"] if package["id"] in uses), key=lambda p: (p["name"], p["version"]))
    return {package["id"]: {**package, "uses": uses[package["id"]]} for package in found}


def inventory(triple: str, linked: List[str]) -> Files:
    """The licenses of all that is in a library, and the list of it (CycloneDX), as files of an installation."""
    components, notices = [], []

    def add(name: str, version: str, license: str, texts: List[str], **more: str) -> str:
        """Adds a component; its reference."""
        terms = {"expression": license} if re.fullmatch(r"[\w.+() -]+", license) and license != UNSAID else {"license": {"name": license}}
        reference = more.get("purl", f"{name}@{version}".rstrip("@"))
        component = {"type": "library", "bom-ref": reference, "name": name, "version": version, "licenses": [terms], **more}
        components.append({key: value for key, value in component.items() if value})
        notices.append("\n\n".join([f"{'=' * 80}\n{name} {version}".rstrip() + f": {license}", *(text.strip() for text in texts)]))
        return reference

    found = crates(triple)
    purl = lambda crate: f"pkg:cargo/{crate['name']}@{crate['version']}"  # noqa: E731
    uses = {purl(crate): sorted(purl(found[other]) for other in crate["uses"]) for crate in found.values()}
    own = {"type": "library", "bom-ref": f"pkg:cargo/realizar@{VERSION}", "name": "realizar", "version": VERSION, "licenses": [{"expression": LICENSE}]}
    for crate in found.values():
        if purl(crate) == own["bom-ref"]:
            continue
        place = Path(crate["manifest_path"]).parent
        files = [f for f in sorted(place.iterdir()) if f.is_file() and re.match(r"(?i)(un)?licen[cs]e|copying|notice", f.name)]
        if not (crate["license"] or files):
            raise SystemExit(f"FAILED: {crate['name']} has no license")
        license = (crate["license"] or UNSAID).replace("/", " OR ")
        texts = [file.read_text(errors="replace") for file in files]
        if "MPL-" in license:
            texts.insert(0, f"Its source code, which was not changed: {crate['repository'] or crate['name']}, version {crate['version']}.")
        add(crate["name"], crate["version"], license, texts, purl=purl(crate))
    zig = importlib.util.find_spec("ziglang")
    for name in linked:
        license, text = LINKED[name]
        file = Path(text.format(zig=zig.submodule_search_locations[0] if zig else ""))
        uses[own["bom-ref"]].append(add(name, "", license, [file.read_text()] if file.is_file() else []))
    rustc = subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]
    uses[own["bom-ref"]].append(add("std", rustc, "MIT OR Apache-2.0", []))
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": own}, "components": components,
        "dependencies": [{"ref": ref, "dependsOn": others} for ref, others in sorted(uses.items())],
    }  # fmt: skip
    # From the contents, so that two builds of the same have the same one.
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, HOMEPAGE + json.dumps(bom))}"
    licenses = {f"share/licenses/realizar/{name}": read(ROOT / name) for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE")}
    return {
        **licenses,
        "share/licenses/realizar/THIRD-PARTY": File(("\n\n".join(notices) + "\n").encode()),
        "share/realizar/sbom.cdx.json": File((json.dumps(bom, indent=1) + "\n").encode()),
    }

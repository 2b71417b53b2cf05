"""The Java package for Maven Central: a jar with the libraries, which are unpacked on first use, its sources,
documentation, pom, and their checksums. scripts/dist-central signs them."""

import hashlib
import re
import tempfile
from pathlib import Path
from typing import Iterator, List

from package_files import DESCRIPTION, ROOT, VERSION, File, Files, Skipped, Stage, call, folder, own_licenses, template, write_zip

SOURCES = ROOT / "bindings/java/realizar"
# Annotations of nullness, which are compiled against and are in no package.
NULLNESS = ("-sourcepath", ROOT / "bindings/java/jspecify")


def documentation(home: str) -> Files:
    """What javadoc makes of the sources, without times."""
    with tempfile.TemporaryDirectory() as made:
        options = ["-quiet", "-notimestamp", "-locale", "en", "-encoding", "UTF-8", "-docencoding", "UTF-8", "-charset", "UTF-8"]
        options += ["-Xdoclint:none", "--release", "22", "-windowtitle", "realizar", "-doctitle", DESCRIPTION, "-d", made]
        if int(re.search(r"\d+", call(f"{home}/bin/javadoc", "--version"))[0]) >= 23:
            options.append("--no-fonts")
        call(f"{home}/bin/javadoc", *options, *NULLNESS, *sorted(SOURCES.glob("*.java")), quiet=True)
        return folder(Path(made))


def packages(out: Path, stages: List[Stage]) -> Iterator[Path]:
    home = call("bash", "-c", '. tests/find-jdk.sh; find_jdk; printf %s "$jdk"')
    if not home:
        raise Skipped("there is no JDK 22 or newer")
    with tempfile.TemporaryDirectory() as made:
        call(f"{home}/bin/javac", "--release", "22", *NULLNESS, "-implicit:none", "-d", made, *sorted(SOURCES.glob("*.java")))
        classes = folder(Path(made))
    title = f"Implementation-Title: realizar\r\nImplementation-Version: {VERSION}\r\nEnable-Native-Access: ALL-UNNAMED\r\n"
    manifest = {"META-INF/MANIFEST.MF": File(f"Manifest-Version: 1.0\r\nAutomatic-Module-Name: realizar\r\nMain-Class: realizar.Main\r\n{title}\r\n".encode())}
    libraries: Files = {}
    for stage in stages:
        rid = stage.system.rid
        if stage.system.libc == "musl":
            continue  # the package does not tell it from the other
        libraries.update({f"realizar/{rid}/{stage.system.library}": stage.library, **stage.licenses(f"META-INF/licenses/{rid}/")})
    sources = {f"realizar/{name}": file for name, file in folder(SOURCES, "*.java").items()}
    name, licenses = f"realizar-{VERSION}", own_licenses("META-INF/")
    made = [
        write_zip(out / f"{name}.jar", {**manifest, **classes, **libraries}),
        write_zip(out / f"{name}-sources.jar", {**manifest, **sources, **licenses}),
        write_zip(out / f"{name}-javadoc.jar", {**manifest, **documentation(home), **licenses}),
    ]
    pom = out / f"{name}.pom"
    pom.write_bytes(template("pom.xml"))
    for path in [*made, pom]:
        for algorithm in ("md5", "sha1"):
            Path(f"{path}.{algorithm}").write_text(hashlib.new(algorithm, path.read_bytes()).hexdigest())
        yield path

"""The C# package for NuGet: the assembly with its documentation, and the libraries of all systems."""

import shutil
import tempfile
from pathlib import Path
from typing import Iterator, List

from package_files import COMMIT, MAINTAINER, ROOT, VERSION, File, Stage, call, read, template, write_zip

PACKAGE = ROOT / "bindings/csharp"


def assembly(made: Path) -> Path:
    """Compiles the assembly and its documentation, by the SDK of .NET on this machine or by the one of the tests."""
    if shutil.which("dotnet") and call("dotnet", "--list-sdks"):
        options = (f"-p:Version={VERSION}", "-p:ContinuousIntegrationBuild=true", f"-p:PathMap={ROOT}=/_")
        call("dotnet", "build", PACKAGE / "Realizar", "-c", "Release", "-o", made, *options)
    else:
        options = ("-unsafe", f"-doc:{made}/Realizar.xml", "-nowarn:1573", f"-out:{made}/Realizar.dll", "-debug:embedded", f"-pathmap:{ROOT}=/_")
        call("scripts/compile-csharp", "library", *options, *sorted((PACKAGE / "Realizar").glob("*.cs")))
    return made / "Realizar.dll"


def packages(out: Path, stages: List[Stage]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        compiled = read(assembly(Path(made))).data
        documentation = read(Path(made) / "Realizar.xml").data
    if b"\0netstandard\0" not in compiled:
        raise SystemExit("FAILED: the assembly is not for .NET Standard")
    files = {"lib/netstandard2.1/Realizar.dll": File(compiled), "lib/netstandard2.1/Realizar.xml": File(documentation)}
    files["README.md"] = read(PACKAGE / "README.md")
    for stage in stages:
        rid = stage.system.rid
        files.update({f"runtimes/{rid}/native/{stage.system.library}": stage.library, **stage.licenses(f"licenses/{rid}/")})
    values = {"AUTHORS": MAINTAINER or "The realizar authors", "COMMIT": COMMIT}
    files["Realizar.nuspec"] = File(template("Realizar.nuspec", **values))
    schemas = "http://schemas.openxmlformats.org/package/2006"
    relation = '<Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/Realizar.nuspec" Id="R1" />'
    files["_rels/.rels"] = File(f'<Relationships xmlns="{schemas}/relationships">{relation}</Relationships>\n'.encode())
    kinds = sorted({name.rpartition(".")[2] for name in files if "." in Path(name).name} - {"rels"})
    types = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />'
    types += "".join(f'<Default Extension="{kind}" ContentType="application/octet" />' for kind in kinds)
    types += "".join(f'<Override PartName="/{name}" ContentType="application/octet" />' for name in sorted(files) if "." not in Path(name).name)
    files["[Content_Types].xml"] = File(f'<Types xmlns="{schemas}/content-types">{types}</Types>\n'.encode())
    yield write_zip(out / f"Realizar.{VERSION}.nupkg", dict(sorted(files.items())))

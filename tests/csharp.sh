#!/usr/bin/env bash
# Compiles the C# package and its tests and runs them, on the runtime of .NET and the compiler of Mono:  tests/csharp.sh LIBRARY
# MODEL=file.gguf tests on a real model too.
set -euo pipefail
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
skip() { echo "SKIPPED: the C# tests, because there is no $1"; exit 0; }
command -v mcs >/dev/null || skip "mcs (Debian: mono-mcs)"
dotnet=$(python3 -c 'import dotnetcore2, os; print(os.path.dirname(dotnetcore2.__file__) + "/bin")' 2>/dev/null) ||
    skip "runtime of .NET (pip install dotnetcore2)"
out=build/csharp
mkdir -p $out
framework=$(echo "$dotnet"/shared/Microsoft.NETCore.App/*)
references=()
for name in System.Private.CoreLib System.Runtime System.Collections System.Linq System.Runtime.InteropServices \
    System.Runtime.Extensions System.Threading System.Threading.Tasks System.Console System.Text.Encoding.Extensions; do
    references+=("-r:$framework/$name.dll")
done
compile() { mcs -langversion:7.2 -warnaserror -nostdlib -noconfig "${references[@]}" "$@"; }
compile -unsafe -target:library -out:$out/Realizar.dll bindings/csharp/Realizar/*.cs
compile -r:$out/Realizar.dll -out:$out/Tests.dll bindings/csharp/Tests/*.cs bindings/csharp/Unity/*.cs
compile -r:$out/Realizar.dll -out:$out/Chat.dll bindings/csharp/Chat/Chat.cs
for program in Tests Chat; do
    echo '{"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"},
        "configProperties": {"System.Globalization.Invariant": true}}}' >$out/$program.runtimeconfig.json
done
cp "$library" $out/
[ -x "$dotnet/dotnet" ] || { cp -r "$dotnet" $out/dotnet && chmod +x $out/dotnet/dotnet && dotnet=$out/dotnet; }
"$dotnet/dotnet" $out/Tests.dll tests/data/stories260K-f32.gguf ${MODEL:+"$MODEL"}

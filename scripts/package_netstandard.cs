// Redirects the references of an assembly, compiled by Mono against .NET's own assemblies, to .NET Standard 2.1:
// package_netstandard ASSEMBLY FRAMEWORK
// FRAMEWORK is the folder of .NET's assemblies, whose netstandard.dll lists the types of the standard; other types are
// an error. References have space for the new names, so that nothing else moves.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection.Metadata;
using System.Reflection.Metadata.Ecma335;
using System.Reflection.PortableExecutable;
using System.Text;

static class PackageNetstandard
{
    const string Core = "System.Private.CoreLib";
    static readonly byte[] Token = { 0xcc, 0x7b, 0x13, 0xff, 0xcd, 0x2d, 0xdd, 0x51 };

    static int Main(string[] arguments)
    {
        var bytes = File.ReadAllBytes(arguments[0]);
        using (var pe = new PEReader(new MemoryStream(bytes)))
        {
            var reader = pe.GetMetadataReader();
            var unknown = Foreign(reader, Path.Combine(arguments[1], "netstandard.dll"));
            if (unknown.Count > 0)
            {
                Console.WriteLine("FAILED: .NET Standard 2.1 lacks " + string.Join(", ", unknown));
                return 1;
            }
            Rename(bytes, reader, pe.PEHeaders.MetadataStartOffset);
        }
        // Types that attributes name by a string, such as a fixed buffer's type.
        var from = Identity(Core, "4.0.0.0", "7cec85d7bea7798e");
        var to = Identity("netstandard".PadLeft(Core.Length), "2.1.0.0", "cc7b13ffcd2ddd51");
        for (var at = 0; at + from.Length <= bytes.Length; at++)
            if (bytes[at] == from[0] && bytes.Skip(at).Take(from.Length).SequenceEqual(from)) to.CopyTo(bytes, at);
        File.WriteAllBytes(arguments[0], bytes);
        return 0;
    }

    static byte[] Identity(string name, string version, string token)
    {
        return Encoding.ASCII.GetBytes($"{name}, Version={version}, Culture=neutral, PublicKeyToken={token}");
    }

    /// <summary>The types that the assembly takes from others and that the standard does not list.</summary>
    static List<string> Foreign(MetadataReader reader, string standard)
    {
        using (var pe = new PEReader(File.OpenRead(standard)))
        {
            var listed = pe.GetMetadataReader();
            var names = new HashSet<string>(listed.ExportedTypes.Select(listed.GetExportedType)
                .Select(type => listed.GetString(type.Namespace) + "." + listed.GetString(type.Name)));
            return reader.TypeReferences.Select(reader.GetTypeReference)
                .Where(type => type.ResolutionScope.Kind == HandleKind.AssemblyReference)
                .Select(type => reader.GetString(type.Namespace) + "." + reader.GetString(type.Name))
                .Where(name => !names.Contains(name)).ToList();
        }
    }

    /// <summary>Gives all references the name, the version and the token of the standard, in place of the
    /// core's.</summary>
    static void Rename(byte[] bytes, MetadataReader reader, int start)
    {
        var core = reader.AssemblyReferences.Single(each => reader.GetString(reader.GetAssemblyReference(each).Name) == Core);
        var table = start + reader.GetTableMetadataOffset(TableIndex.AssemblyRef);
        var size = reader.GetTableRowSize(TableIndex.AssemblyRef);
        var name = start + reader.GetHeapMetadataOffset(HeapIndex.String) + reader.GetHeapOffset(reader.GetAssemblyReference(core).Name);
        Encoding.ASCII.GetBytes("netstandard".PadRight(Core.Length, '\0')).CopyTo(bytes, name);
        var token = start + reader.GetHeapMetadataOffset(HeapIndex.Blob) + reader.GetHeapOffset(reader.GetAssemblyReference(core).PublicKeyOrToken);
        Token.CopyTo(bytes, token + 1); // behind its length
        var row = bytes.Skip(table + (reader.GetRowNumber(core) - 1) * size).Take(size).ToArray();
        new byte[] { 2, 0, 1, 0, 0, 0, 0, 0 }.CopyTo(row, 0);
        for (var each = 0; each < reader.GetTableRowCount(TableIndex.AssemblyRef); each++) row.CopyTo(bytes, table + each * size);
    }
}

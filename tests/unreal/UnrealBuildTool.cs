// Stands for the part of Unreal's build tool that Realizar.Build.cs uses, and prints what the module says for each system.
using System;
using System.Collections.Generic;

namespace UnrealBuildTool
{
    public sealed class UnrealTargetPlatform
    {
        private readonly string name;
        private UnrealTargetPlatform(string name) { this.name = name; }
        public override string ToString() { return name; }
        public static readonly UnrealTargetPlatform Win64 = new UnrealTargetPlatform("Win64"), Mac = new UnrealTargetPlatform("Mac"),
            Linux = new UnrealTargetPlatform("Linux"), LinuxArm64 = new UnrealTargetPlatform("LinuxArm64"), Other = new UnrealTargetPlatform("Other");
    }
    public class ReadOnlyTargetRules { public UnrealTargetPlatform Platform; }
    public class TargetInfo { }
    public enum TargetType { Game, Editor }
    public enum BuildSettingsVersion { Latest }
    public class TargetRules
    {
        public TargetType Type;
        public BuildSettingsVersion DefaultBuildSettings;
        public List<string> ExtraModuleNames = new List<string>();
        public TargetRules(TargetInfo target) { }
    }
    public class BuildException : Exception { public BuildException(string format, params object[] arguments) : base(string.Format(format, arguments)) { } }
    public class Dependencies : List<string> { public void Add(string path, string source) { Add(path); Add(source); } }
    public class ModuleRules
    {
        public enum PCHUsageMode { UseExplicitOrSharedPCHs }
        public enum CppStandardVersion { Cpp17 }
        public PCHUsageMode PCHUsage;
        public CppStandardVersion CppStandard;
        public string ModuleDirectory = "Plugin/Source/Realizar";
        public List<string> PublicDependencyModuleNames = new List<string>(), PublicSystemIncludePaths = new List<string>(),
            PublicAdditionalLibraries = new List<string>(), PublicDelayLoadDLLs = new List<string>();
        public Dependencies RuntimeDependencies = new Dependencies();
        public ModuleRules(ReadOnlyTargetRules target) { }
    }

    internal static class Program
    {
        private static int Main()
        {
            foreach (var platform in new[] { UnrealTargetPlatform.Win64, UnrealTargetPlatform.Mac, UnrealTargetPlatform.Linux, UnrealTargetPlatform.LinuxArm64 })
            {
                var rules = new Realizar(new ReadOnlyTargetRules { Platform = platform });
                Console.WriteLine(platform + ": " + rules.PublicSystemIncludePaths[0] + " " + rules.PublicAdditionalLibraries[0] + " " + rules.RuntimeDependencies[1]);
            }
            try { new Realizar(new ReadOnlyTargetRules { Platform = UnrealTargetPlatform.Other }); }
            catch (BuildException e) { Console.WriteLine(e.Message); return 0; }
            return 1;
        }
    }
}

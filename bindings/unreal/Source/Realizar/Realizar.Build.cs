using System.IO;
using UnrealBuildTool;

/// Finds the library of each system below ThirdParty, as the archives of a release have it: include/, lib/ and on
/// Windows bin/.
public class Realizar : ModuleRules
{
    public Realizar(ReadOnlyTargetRules Target) : base(Target)
    {
        PCHUsage = PCHUsageMode.UseExplicitOrSharedPCHs;
        CppStandard = CppStandardVersion.Cpp17;
        PublicDependencyModuleNames.AddRange(new string[] { "Core", "CoreUObject", "Engine" });

        string Root = Path.Combine(ModuleDirectory, "..", "ThirdParty", "realizar", Target.Platform.ToString());
        PublicSystemIncludePaths.Add(Path.Combine(Root, "include"));
        if (Target.Platform == UnrealTargetPlatform.Win64)
        {
            PublicAdditionalLibraries.Add(Path.Combine(Root, "lib", "realizar.lib"));
            PublicDelayLoadDLLs.Add("realizar.dll");
            RuntimeDependencies.Add("$(BinaryOutputDir)/realizar.dll", Path.Combine(Root, "bin", "realizar.dll"));
        }
        else if (Target.Platform == UnrealTargetPlatform.Mac)
        {
            PublicAdditionalLibraries.Add(Path.Combine(Root, "lib", "librealizar.1.dylib"));
            RuntimeDependencies.Add("$(BinaryOutputDir)/librealizar.1.dylib", Path.Combine(Root, "lib", "librealizar.1.dylib"));
        }
        else if (Target.Platform == UnrealTargetPlatform.Linux || Target.Platform == UnrealTargetPlatform.LinuxArm64)
        {
            PublicAdditionalLibraries.Add(Path.Combine(Root, "lib", "librealizar.so"));
            RuntimeDependencies.Add("$(BinaryOutputDir)/librealizar.so.1", Path.Combine(Root, "lib", "librealizar.so.1"));
        }
        else
        {
            throw new BuildException("Realizar has no library for {0}", Target.Platform);
        }
    }
}

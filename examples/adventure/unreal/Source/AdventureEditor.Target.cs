using UnrealBuildTool;

public class AdventureEditorTarget : TargetRules
{
    public AdventureEditorTarget(TargetInfo Target) : base(Target)
    {
        Type = TargetType.Editor;
        DefaultBuildSettings = BuildSettingsVersion.Latest;
        ExtraModuleNames.Add("Adventure");
    }
}

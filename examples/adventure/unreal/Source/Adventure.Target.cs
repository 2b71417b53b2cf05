using UnrealBuildTool;

public class AdventureTarget : TargetRules
{
    public AdventureTarget(TargetInfo Target) : base(Target)
    {
        Type = TargetType.Game;
        DefaultBuildSettings = BuildSettingsVersion.Latest;
        ExtraModuleNames.Add("Adventure");
    }
}

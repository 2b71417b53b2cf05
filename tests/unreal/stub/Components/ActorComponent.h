#pragma once

#include "../CoreMinimal.h"

enum ELevelTick { LEVELTICK_TimeOnly, LEVELTICK_ViewportsOnly, LEVELTICK_All };
namespace EEndPlayReason {
enum Type { Destroyed, LevelTransition };
}
struct FActorComponentTickFunction {
    bool bCanEverTick = false;
};

class UActorComponent {
public:
    virtual ~UActorComponent() = default;
    virtual void BeginPlay() { begun = true; }
    virtual void EndPlay(const EEndPlayReason::Type) { begun = false; }
    virtual void TickComponent(float, ELevelTick, FActorComponentTickFunction *) { ticks++; }
    FActorComponentTickFunction PrimaryComponentTick;
    bool begun = false;
    int ticks = 0;
};

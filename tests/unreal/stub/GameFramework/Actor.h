#pragma once

#include "Components/ActorComponent.h"

class AActor {
public:
    virtual ~AActor() = default;
    virtual void BeginPlay() { begun = true; }
    virtual void EndPlay(const EEndPlayReason::Type) { begun = false; }
    virtual void Tick(float) {}
    template <class T> T *CreateDefaultSubobject(const TCHAR *) {
        auto made = std::make_shared<T>();
        components_.push_back(made);
        return made.get();
    }
    FActorComponentTickFunction PrimaryActorTick;
    bool begun = false;

private:
    std::vector<std::shared_ptr<UActorComponent>> components_;
};

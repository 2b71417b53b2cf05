#pragma once

#include "Components/ActorComponent.h"

class AActor {
public:
    virtual ~AActor() = default;
    virtual void BeginPlay() {
        for (const auto &component : components_) component->BeginPlay();
    }
    virtual void EndPlay(const EEndPlayReason::Type reason) {
        for (const auto &component : components_) component->EndPlay(reason);
    }
    virtual void Tick(float) {}
    template <class T> T *CreateDefaultSubobject(const TCHAR *) {
        auto made = std::make_shared<T>();
        components_.push_back(made);
        return made.get();
    }
    FActorComponentTickFunction PrimaryActorTick;

private:
    std::vector<std::shared_ptr<UActorComponent>> components_;
};

#pragma once

#include "CoreMinimal.h"

// The pixels of a render target, `pixels` for the test; without any they cannot be read.
class FTextureRenderTargetResource {
public:
    bool ReadPixels(TArray<FColor> &out) {
        out = pixels;
        return out.Num() > 0;
    }
    TArray<FColor> pixels;
};

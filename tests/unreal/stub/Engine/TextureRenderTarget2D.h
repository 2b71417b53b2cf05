#pragma once

#include "../TextureResource.h"

class UTextureRenderTarget2D {
public:
    FTextureRenderTargetResource *GameThread_GetRenderTargetResource() { return &resource; }
    int32 SizeX = 0, SizeY = 0;
    FTextureRenderTargetResource resource;
};

#pragma once

#include "../CoreMinimal.h"

struct FPaths {
    inline static FString Content;
    static FString ProjectContentDir() { return Content; }
};

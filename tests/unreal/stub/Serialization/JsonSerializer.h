#pragma once

#include "JsonReader.h"

struct FJsonSerializer {
    static bool Deserialize(TJsonReader reader, TSharedPtr<FJsonObject> &out) {
        out = reader.Value()->object;
        return out != nullptr;
    }
};

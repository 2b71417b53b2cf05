#pragma once

#include "../CoreMinimal.h"

#include <fstream>
#include <sstream>

struct FFileHelper {
    static bool LoadFileToString(FString &out, const TCHAR *path) {
        std::ifstream file(FTCHARToUTF8(path).Get());
        std::stringstream text;
        text << file.rdbuf();
        const std::string read = text.str();
        const FUTF8ToTCHAR converted(read.c_str(), static_cast<int32>(read.size()));
        out = converted.Get();
        return file.good();
    }
};

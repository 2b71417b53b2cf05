#pragma once

#include "../CoreMinimal.h"

#include <map>

class FJsonObject;

class FJsonValue {
public:
    const TSharedPtr<FJsonObject> &AsObject() const { return object; }
    FString text;
    bool is = false;
    TArray<TSharedPtr<FJsonValue>> array;
    TSharedPtr<FJsonObject> object;
};

class FJsonObject {
public:
    FString GetStringField(const FString &name) const { return fields.at(*name)->text; }
    const TArray<TSharedPtr<FJsonValue>> &GetArrayField(const FString &name) const { return fields.at(*name)->array; }
    bool TryGetStringField(const FString &name, FString &out) const {
        const auto found = fields.find(*name);
        return found != fields.end() && (out = found->second->text, true);
    }
    bool TryGetBoolField(const FString &name, bool &out) const {
        const auto found = fields.find(*name);
        return found != fields.end() && (out = found->second->is, true);
    }
    std::map<std::u16string, TSharedPtr<FJsonValue>> fields;
};

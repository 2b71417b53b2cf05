#pragma once

#include "../Dom/JsonObject.h"

/** Reads objects, lists, strings whose escapes are of one character, true and false. */
struct TJsonReader {
    const TCHAR *at;

    TCHAR Next() {
        while (*at == ' ' || *at == '\n' || *at == ',' || *at == ':') at++;
        return *at;
    }
    FString Text() {
        std::u16string made;
        for (at++; *at && *at != '"'; at++) made += *at == '\\' ? *++at : *at;
        at++;
        return made;
    }
    TSharedPtr<FJsonValue> Value() {
        auto made = std::make_shared<FJsonValue>();
        const TCHAR first = Next();
        if (first == '"') {
            made->text = Text();
        } else if (first == '[') {
            for (at++; Next() && Next() != ']';) made->array.Add(Value());
            at++;
        } else if (first == '{') {
            made->object = std::make_shared<FJsonObject>();
            for (at++; Next() == '"';) {
                const FString name = Text();
                made->object->fields[*name] = Value();
            }
            at++;
        } else {
            made->is = first == 't';
            while (*at >= 'a' && *at <= 'z') at++;
        }
        return made;
    }
};

template <class = void> struct TJsonReaderFactory {
    static TJsonReader Create(const FString &text) { return {*text}; }
};

// Stands for the part of Unreal Engine's headers that bindings/unreal uses, with the same names, types and rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using uint8 = std::uint8_t;
using int32 = std::int32_t;
using uint32 = std::uint32_t;
using uint64 = std::uint64_t;
using TCHAR = char16_t;
#define TEXT(text) u##text

struct FMath {
    template <class T> static T Max(T a, T b) { return std::max(a, b); }
    template <class T> static T Min(T a, T b) { return std::min(a, b); }
};

template <class T> using TObjectPtr = T *;
template <class T> using TSharedPtr = std::shared_ptr<T>;

template <class T> class TArray {
public:
    void Add(T item) { items_.push_back(std::move(item)); }
    void SetNum(int32 n) { items_.resize(static_cast<size_t>(n)); }
    const T *GetData() const { return items_.data(); }
    T &operator[](int32 i) { return items_.at(static_cast<size_t>(i)); }
    int32 Num() const { return static_cast<int32>(items_.size()); }
    const T &operator[](int32 i) const { return items_.at(static_cast<size_t>(i)); }
    bool Contains(const T &item) const { return std::find(items_.begin(), items_.end(), item) != items_.end(); }
    void Sort() { std::sort(items_.begin(), items_.end()); }
    auto begin() const { return items_.begin(); }
    auto end() const { return items_.end(); }

private:
    std::vector<T> items_;
};

struct FColor {
    uint8 B, G, R, A;
};

class FString {
public:
    FString() = default;
    FString(const TCHAR *text) : text_(text) {}
    FString(std::u16string text) : text_(std::move(text)) {}
    int32 Len() const { return static_cast<int32>(text_.size()); }
    bool operator==(const FString &other) const { return text_ == other.text_; }
    bool operator!=(const FString &other) const { return text_ != other.text_; }
    FString &operator+=(const FString &other) { return text_ += other.text_, *this; }
    friend FString operator+(FString a, const FString &b) { return a += b; }
    friend FString operator/(FString a, const FString &b) { return a += TEXT("/") + b; }
    FString RightChop(int32 count) const { return text_.substr(static_cast<size_t>(count)); }
    FString Replace(const TCHAR *from, const TCHAR *to) const {
        TArray<FString> parts;
        ParseIntoArray(parts, from, false);
        return Join(parts, to);
    }
    int32 ParseIntoArray(TArray<FString> &out, const TCHAR *between, bool) const {
        size_t start = 0, end;
        for (; (end = text_.find(between, start)) != text_.npos; start = end + std::char_traits<TCHAR>::length(between))
            out.Add(text_.substr(start, end - start));
        out.Add(text_.substr(start));
        return out.Num();
    }
    static FString Join(const TArray<FString> &parts, const TCHAR *between) {
        FString all;
        for (int32 i = 0; i < parts.Num(); i++) all += (i == 0 ? FString() : FString(between)) + parts[i];
        return all;
    }
    template <class... Arguments> static FString Printf(const TCHAR *format, Arguments... arguments) {
        char narrow[128], made[256];
        size_t n = 0;
        for (; format[n]; n++) narrow[n] = static_cast<char>(format[n]);
        narrow[n] = 0;
        std::snprintf(made, sizeof made, narrow, arguments...);
        return std::u16string(made, made + std::char_traits<char>::length(made));
    }
    void AppendChars(const TCHAR *text, int32 length) { text_.append(text, static_cast<size_t>(length)); }
    const TCHAR *operator*() const { return text_.c_str(); }
    bool IsEmpty() const { return text_.empty(); }

private:
    std::u16string text_;
};

class FUTF8ToTCHAR {
public:
    FUTF8ToTCHAR(const char *text, int32 length) {
        for (int32 i = 0; i < length;) {
            const unsigned char first = static_cast<unsigned char>(text[i]);
            const int more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
            char32_t c = more == 0 ? first : first & (0x3F >> more);
            for (int j = 1; j <= more; j++) c = c << 6 | (static_cast<unsigned char>(text[i + j]) & 0x3F);
            i += more + 1;
            if (c >= 0x10000) converted_ += static_cast<TCHAR>(0xD800 + ((c - 0x10000) >> 10));
            converted_ += static_cast<TCHAR>(c < 0x10000 ? c : 0xDC00 + (c & 0x3FF));
        }
    }
    const TCHAR *Get() const { return converted_.c_str(); }
    int32 Length() const { return static_cast<int32>(converted_.size()); }

private:
    std::u16string converted_;
};

class FTCHARToUTF8 {
public:
    FTCHARToUTF8(const TCHAR *text) {
        for (; *text; text++) {
            char32_t c = *text;
            if (c >= 0xD800 && c < 0xDC00 && text[1]) c = 0x10000 + ((c & 0x3FF) << 10) + (*++text & 0x3FF);
            const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
            converted_ += static_cast<char>("\0\xC0\xE0\xF0"[more] | static_cast<char>(c >> 6 * more));
            for (int j = more - 1; j >= 0; j--) converted_ += static_cast<char>(0x80 | (c >> 6 * j & 0x3F));
        }
    }
    const char *Get() const { return converted_.c_str(); }
    int32 Length() const { return static_cast<int32>(converted_.size()); }

private:
    std::string converted_;
};

// The text that the engine's log prints goes to `logged`, with the first text or number in it.
inline std::string logged;
inline std::string Plain(const TCHAR *text) { return FTCHARToUTF8(text).Get(); }
inline std::string Plain(uint32 number) { return std::to_string(number); }
template <class First, class... Rest> void Log(const TCHAR *, First first, Rest...) { logged = Plain(first); }
inline void Log(const TCHAR *format) { logged = Plain(format); }
#define DEFINE_LOG_CATEGORY_STATIC(name, level, most) [[maybe_unused]] static const int name = 0
#define UE_LOG(category, level, ...) Log(__VA_ARGS__)

template <class Argument> class TDelegate {
public:
    void Broadcast(Argument argument) {
        for (const auto &f : receivers_) f(argument);
    }
    void Add(std::function<void(Argument)> f) { receivers_.push_back(std::move(f)); }
    template <class T> void AddDynamic(T *object, void (T::*method)(Argument)) {
        Add([=](Argument argument) { (object->*method)(argument); });
    }

private:
    std::vector<std::function<void(Argument)>> receivers_;
};
#define DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(name, type, argument) using name = TDelegate<type>

#define UCLASS(...)
#define UPROPERTY(...)
#define UFUNCTION(...)
#define REALIZAR_API
#define ADVENTURE_API

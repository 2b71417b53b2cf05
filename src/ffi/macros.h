/* Declares a struct of parameters or results: all zeros but struct_size. */
#ifdef __cplusplus
#define RZ_INIT(type, name) type name = {}; name.struct_size = sizeof(name)
#else
#define RZ_INIT(type, name) type name = {0}; name.struct_size = sizeof(name)
#endif

/* Marks the functions of the library. On Windows a program that is linked with the DLL may define RZ_SHARED before it
 * includes this header: its calls then go to the DLL directly. Without RZ_SHARED, calls work with the static library
 * and with the DLL, by way of the import library. */
#ifndef RZ_API
#if defined(_WIN32) && defined(RZ_SHARED)
#define RZ_API __declspec(dllimport)
#elif defined(__GNUC__) && !defined(_WIN32)
#define RZ_API __attribute__((visibility("default")))
#else
#define RZ_API
#endif
#endif

/* The calling convention of functions and callbacks. */
#ifdef _WIN32
#define RZ_CALL __cdecl
#else
#define RZ_CALL
#endif

/* RZ_NULLABLE marks a pointer that may be NULL, RZ_NONNULL a pointer that must not be NULL. In this header a pointer
 * without a mark must not be NULL. Clang knows both marks and passes them on to Swift and Zig. */
#ifdef __clang__
#define RZ_NULLABLE _Nullable
#define RZ_NONNULL _Nonnull
#else
#define RZ_NULLABLE
#define RZ_NONNULL
#endif

/* Marks functions whose results in the caller's memory are only valid if the returned status says so, and functions
 * whose status says whether to call again. A program may define it as nothing before it includes this header. */
#ifndef RZ_WARN_UNUSED
#ifdef __GNUC__
#define RZ_WARN_UNUSED __attribute__((warn_unused_result))
#else
#define RZ_WARN_UNUSED
#endif
#endif

/* Marks functions that have a better successor, which `text` names. */
#if defined(__GNUC__)
#define RZ_DEPRECATED(text) __attribute__((deprecated(text)))
#elif defined(_MSC_VER)
#define RZ_DEPRECATED(text) __declspec(deprecated(text))
#else
#define RZ_DEPRECATED(text)
#endif


/* Opens the library, and compares its interface, its functions and the layouts of its structs with the header. */

#include "internal.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
static void *open_file(const char *path, char *why, size_t capacity) {
    wchar_t wide[4096];
    HMODULE module = MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 4096) ? LoadLibraryW(wide) : NULL;
    if (!module) snprintf(why, capacity, "error %lu", GetLastError());
    return (void *)module;
}
static void *look_up(void *file, const char *name) { return (void *)GetProcAddress((HMODULE)file, name); }
#else
#include <dlfcn.h>
static void *open_file(const char *path, char *why, size_t capacity) {
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file) snprintf(why, capacity, "%s", dlerror());
    return file;
}
static void *look_up(void *file, const char *name) { return dlsym(file, name); }
#endif

/* A struct, or a field of it, as this addon was compiled. */
typedef struct place {
    const char *structure, *field;
    size_t offset, size;
} place;

#define STRUCT(structure) {#structure, "", 0, sizeof(structure)},
#define FIELD(structure, field)                                                                                        \
    {#structure, #field, offsetof(structure, field), sizeof(((structure *)0)->field)},
static const place PLACES[] = {STRUCTS(STRUCT, FIELD)};
enum { N_PLACES = sizeof PLACES / sizeof *PLACES };

static bool check_layouts(const library *lib, const char *path, char *why, size_t capacity) {
    bool found[N_PLACES] = {false};
    rz_layout layout = {.struct_size = sizeof layout};
    for (uint32_t i = 0; lib->rz_layout_get(i, &layout, NULL) == RZ_OK; i++) {
        for (size_t j = 0; j < N_PLACES; j++) {
            const place *mine = &PLACES[j];
            if (strcmp(mine->structure, layout.struct_name) != 0 || strcmp(mine->field, layout.field_name) != 0)
                continue;
            found[j] = true;
            /* A struct of a newer library may be longer; its size tells the library what is known of it here. */
            bool grown = !*mine->field && layout.size > mine->size;
            if (!grown && (mine->offset != layout.offset || mine->size != layout.size)) {
                snprintf(why, capacity, "the library %s has %s.%s at %u with %u bytes, expected at %zu with %zu", path,
                         mine->structure, mine->field, layout.offset, layout.size, mine->offset, mine->size);
                return false;
            }
        }
    }
    for (size_t j = 0; j < N_PLACES; j++) {
        if (!found[j]) {
            snprintf(why, capacity, "the library %s lacks %s.%s", path, PLACES[j].structure, PLACES[j].field);
            return false;
        }
    }
    return true;
}

bool library_open(library *lib, const char *path, char *why, size_t capacity) {
    char reason[512];
    void *file = open_file(path, reason, sizeof reason);
    if (!file) {
        snprintf(why, capacity, "the library %s cannot be loaded: %s", path, reason);
        return false;
    }
#define FUNCTION(name)                                                                                                 \
    *(void **)&lib->name = look_up(file, #name);                                                                       \
    if (!lib->name) {                                                                                                  \
        snprintf(why, capacity, "the library %s has no function %s", path, #name);                                     \
        return false;                                                                                                  \
    }
    FUNCTION(rz_abi_version) /* First, because another interface may have other functions. */
    if (lib->rz_abi_version() != RZ_ABI_VERSION) {
        snprintf(why, capacity, "the library %s has the interface %u, %u is needed", path, lib->rz_abi_version(),
                 RZ_ABI_VERSION);
        return false;
    }
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    return check_layouts(lib, path, why, capacity);
}

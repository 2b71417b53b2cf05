# shellcheck shell=bash
# Sourced by tests. other_library writes a library of another interface, in which all functions are, because a loader asks for them.

other_library() { # folder of an installation, folder for librealizar.so.1
    mkdir -p "$2"
    {
        echo 'unsigned rz_abi_version(void) { return 99; } const char *rz_version(void) { return "9.9"; }'
        echo 'const char *rz_status_name(int status) { (void)status; return "RZ_ERR_VERSION"; }'
        grep -o '^rz_[a-z0-9_]*(' "$1/include/realizar.h" | sort -u | tr -d '(' |
            grep -vx 'rz_abi_version\|rz_version\|rz_status_name' | sed 's/.*/void &(void) {}/'
    } >"$2/library.c"
    echo 'REALIZAR_0.1 { global: rz_*; local: *; };' >"$2/map"
    "${CC:-cc}" -shared -fPIC -o "$2/librealizar.so.1" "$2/library.c" -Wl,-soname,librealizar.so.1 -Wl,--version-script="$2/map"
}

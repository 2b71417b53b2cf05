#!/usr/bin/env bash
# Checks what the doctor of a language prints of GPUs of other APIs, available or not:
#     tests/devices.sh STAGE FOLDER COMMAND...
# Writes FOLDER/librealizar.so, a library with such devices (tests/devices.c), which the command must load or preload.
set -euo pipefail
stage=$(realpath "$1") folder=$2
if [ "$(uname -s)" != Linux ] || ! command -v "${CC:-cc}" >/dev/null; then
    echo "SKIPPED: GPUs of other APIs in the doctor, because this is not Linux or there is no C compiler"
    exit 0
fi
mkdir -p "$folder"
rm -f "$folder/librealizar.so"
"${CC:-cc}" -shared -fPIC -Wall -Wextra -Werror -o "$folder/librealizar.so" "$(dirname "$0")/devices.c" -I"$stage/include" -ldl \
    -Wl,--no-as-needed -L"$stage/lib" -lrealizar -Wl,-rpath,"$stage/lib"
said=$("${@:3}" | grep '^device' || true)
form='^device 1: [^
]+, [0-9.]+ of [0-9.]+ GB of memory free
device 2: vulkan:0 Test GPU, vulkan w32, 6\.0 of 8\.0 GB of memory free
device 3: vulkan:1 Slow GPU, vulkan w8, 3\.0 of 4\.0 GB of memory free, unavailable: it is a software driver, slower than device 1
device 4: metal:0, unavailable: there is no metal driver with a device$'
[[ $said =~ $form ]] || { echo "FAILED: the devices of the doctor: $said"; exit 1; }

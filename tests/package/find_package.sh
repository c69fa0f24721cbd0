#!/usr/bin/env bash
# find_package.sh ARCHIVE COMPILER SWIFTSHADER_ICD: builds consumer/ with the unpacked archive, and
# runs it where neither the compiler nor CMake has left anything in the environment.
set -euo pipefail
archive=$1 compiler=$2 swiftshader=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/sine.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/another folder"
tar -C "$work/another folder" -xf "$archive"
root=("$work/another folder"/*/)
root=${root[0]%/}

cmake -S "$here/consumer" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$root" \
  -DCMAKE_CXX_COMPILER="$compiler" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" || { cat "$work/log"; exit 1; }

expect_sine "$(env -i TENSORGRAD_DEVICE=cpu "$work/build/sine")"
# Dawn is found beside the library, not beside the program.
out=$(env -i VK_DRIVER_FILES="$swiftshader" VK_ICD_FILENAMES="$swiftshader" "$work/build/devices")
[[ $out == *"webgpu yes"* ]] || { echo "WebGPU is not there: $out"; exit 1; }

# Linked with the library, and with nothing that the library uses inside.
needed=$(readelf -d "$work/build/sine" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
[[ $needed =~ ^(ld-linux-x86-64\.so\.2 )?libc\.so\.6\ (libgcc_s\.so\.1 )?(libm\.so\.6 )?libstdc\+\+\.so\.6\ libtensorgrad\.so\.[0-9.]+\ $ ]] ||
  { echo "the program needs $needed"; exit 1; }

#!/usr/bin/env bash
# bare_system.sh ARCHIVE VERSION AUDIT_LIBRARY SWIFTSHADER_ICD: unpacks the archive somewhere else and
# runs the program with an empty environment, where no library but the C library is installed.
set -euo pipefail
archive=$1 version=$2 audit=$3 swiftshader=$4

die() { echo "$*" >&2; exit 1; }

size=$(stat -c %s "$archive")
((size < 25000000)) || die "the archive has $size bytes; at most 25,000,000 were promised"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/another folder"
tar -C "$work/another folder" -xf "$archive"
root=("$work/another folder"/*/)
root=${root[0]%/}

# on_bare_system [NAME=VALUE...] -- ARGUMENT...: the program's output, both streams.
on_bare_system() {
  local environment=()
  while [[ $1 != -- ]]; do
    environment+=("$1")
    shift
  done
  shift
  env -i -C / LD_AUDIT="$audit" BARE_SYSTEM_KEEP="$root:${swiftshader%/*}" "${environment[@]}" \
    "$root/bin/tensorgrad" "$@" 2>&1
}

# expect TEXT OUTPUT
expect() { [[ $2 == *"$1"* ]] || die "expected \"$1\" in:"$'\n'"$2"; }

# The check itself: such a system has no C++ library, so a C++ program does not start.
if env -i LD_AUDIT="$audit" cmake --version >/dev/null 2>&1; then
  die "$audit does not hide the system's libraries"
fi

expect "tensorgrad $version" "$(on_bare_system -- version)"
out=$(on_bare_system -- devices)
expect "* cpu" "$out"
expect "Vulkan's loader finds no driver" "$out" # Dawn and the loader were found, then
expect "trained 50 steps" "$(on_bare_system -- train sin --steps 50)"
out=$(on_bare_system VK_DRIVER_FILES="$swiftshader" VK_ICD_FILENAMES="$swiftshader" -- \
  train sin --steps 3 --device webgpu)
expect "SwiftShader" "$out"
expect "trained 3 steps" "$out"

for file in include/tensorgrad/tensorgrad.hpp lib/cmake/tensorgrad/tensorgradConfig.cmake \
  share/doc/tensorgrad/LICENSE share/doc/tensorgrad/licences/{dawn,highway,vulkan-loader}.txt; do
  [[ -s $root/$file ]] || die "$file is not in the archive"
done
# The archive is one folder, and knows nothing of the machine that it was built on.
[[ $(find "$work/another folder" -mindepth 1 -maxdepth 1 | wc -l) == 1 ]] ||
  die "the archive holds more than one folder"
if grep -rlF "$(cd "$(dirname "$0")/../.." && pwd)" "$root"; then
  die "these files name the folder that they were built in"
fi

#!/usr/bin/env bash
# add_subdirectory.sh SOURCE FOLDER COMPILER FLAGS WERROR: builds consumer/ in a folder, with the
# library's sources inside of it: only the library is built, and its flags stay with it.
set -euo pipefail
source=$1 work=$2 compiler=$3 flags=$4 werror=$5
here=$(cd "$(dirname "$0")" && pwd)
. "$here/sine.sh"

mkdir -p "$work"
cmake -S "$here/consumer" -B "$work" -G Ninja -DTENSORGRAD_SOURCE="$source" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$flags" \
  -DTENSORGRAD_WERROR="$werror" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work" --target sine >"$work/log" || { cat "$work/log"; exit 1; }
expect_sine "$(env -i TENSORGRAD_DEVICE=cpu "$work/sine")"

if ninja -C "$work" -t targets all | grep -E '(test_|example_|bench_|tensorgrad_cli)'; then
  echo "more than the library would be built"
  exit 1
fi
# The consumer's own files are compiled with what the consumer says, and with C++20.
own=$(ninja -C "$work" -t commands sine | grep -F ' -c ' | grep 'examples/sine.cpp')
if grep -oE -- '-W[a-z-]+|-f[a-z-]+|-D[A-Z_]+|ccache' <<<"$own" | grep -vxE -- '-DNDEBUG|-Wall|-Wextra|-Wpedantic|-Werror'; then
  echo "flags of the library in: $own"
  exit 1
fi

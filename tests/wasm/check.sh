#!/usr/bin/env bash
# check.sh EXPECTED COMMAND...: runs a command and compares what it prints, word by word: numbers with
# a point may differ in the fifth digit, as the mathematical functions of two platforms do. With
# TENSORGRAD_UPDATE_GOLDEN=1 in the environment it writes the file instead.
set -euo pipefail
expected=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$@" >actual
if [[ ${TENSORGRAD_UPDATE_GOLDEN:-} == 1 ]]; then
  cp actual "$expected"
  exit
fi
awk '
  function alike(a, b) {
    if (a == b) return 1
    if (a !~ /^-?[0-9]+\.[0-9]+(e[-+]?[0-9]+)?$/ || b !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) return 0
    return (a - b) ^ 2 <= (2e-5 * a) ^ 2
  }
  NR == FNR { expected[FNR] = $0; lines = FNR; next }
  {
    same = split(expected[FNR], e) == NF
    for (i = 1; i <= NF && same; i++) same = alike(e[i], $i)
    if (!same) { print "line " FNR ": expected " expected[FNR] "\n  printed " $0; bad = 1 }
  }
  END {
    if (lines == 0 || FNR != lines) { print "expected " lines " lines, printed " FNR; bad = 1 }
    exit bad
  }
' "$expected" actual

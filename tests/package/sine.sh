# expect_sine OUTPUT: what examples/sine.cpp prints when it has learned.
expect_sine() {
  awk -F '[ ,]+' '{ exit !(NR == 1 && $2 >= 0 && $2 < 1e-3 && $5 > 0.43 && $5 < 0.53) }' <<<"$1" || {
    echo "the sine was not learned: $1" >&2
    exit 1
  }
}

#!/usr/bin/env bash
# parts_test.sh TARGET FUZZ_HOURS: two parts of fuzzing go on one from the other, and their log is
# summed to a table.
set -euo pipefail
target=$1 hours=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

part() { ATTNLAB_FUZZ_FOLDER=$folder/kept ATTNLAB_FUZZ_SECONDS=1 ATTNLAB_FUZZ_SEED=$1 "$target"; }
fail() {
  echo "$1" >&2
  exit 1
}

name=$(basename "$target")
part 1 | grep -q '; 0 from before' || fail "the first part has inputs from before"
kept=$(ls "kept/corpus/$name" | wc -l)
((kept > 0)) || fail "nothing was kept"
part 2 | grep -q "; $kept from before" || fail "the second part did not take what the first kept"

cat >log <<'EOF'
2026-01-01T00:00:00Z faults             100 s  seed 1  passed  12 faults;
2026-01-01T00:00:00Z yaml_fuzz         1800 s  seed 1  passed  seed 1: 1000 inputs in 1800 s, 10 taken, the others refused; 0 from before; sanitised;
2026-01-01T00:00:00Z idx_fuzz          3600 s  seed 1  FAILED  
2026-01-02T00:00:00Z yaml_fuzz         1800 s  seed 2  passed  seed 2: 500 inputs in 1800 s, 5 taken, the others refused; 10 from before;
EOF
cat >expected <<'EOF'
| target | hours | of them sanitised | inputs | taken | parts with a finding |
|---|---|---|---|---|---|
| idx | 1.0 | 0.0 | 0 | 0 | 1 |
| yaml | 1.0 | 0.5 | 1500 | 15 | 0 |
| all | 2.0 | 0.5 | 1500 | 15 | 1 |
EOF
"$hours" log | diff expected - || fail "another table was expected"

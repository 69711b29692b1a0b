#!/usr/bin/env bash
# hours_test.sh FUZZ_HOURS: a log of nights is summed to a table.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/log" <<'EOF'
2026-01-01T00:00:00Z faults             100 s  seed 1  passed  12 faults;
2026-01-01T00:00:00Z yaml_fuzz         1810 s  seed 1  passed  1000 inputs in 1800 s, 10 kept, 100 of 400 lines reached;
2026-01-01T00:00:00Z idx_fuzz          3600 s  seed 1  FAILED  
2026-01-02T00:00:00Z uea_fuzz             2 s  seed 2  UNDONE  
2026-01-02T00:00:00Z yaml_fuzz         1815 s  seed 2  passed  500 inputs in 1800 s, 30 kept, 300 of 400 lines reached;
2026-01-02T00:00:00Z uea_fuzz          3600 s  seed 2  passed  2000 inputs in 3600 s, 5 kept, 50 of 100 lines reached;
EOF
cat >"$folder/expected" <<'EOF'
| target | hours | inputs | lines reached |
|---|---|---|---|
| idx | 1.0 | 0 | |
| uea | 1.0 | 2,000 | 50 of 100 (50 %) |
| yaml | 1.0 | 1,500 | 300 of 400 (75 %) |
| all | 3.0 | 3,500 | |

Parts with a finding: idx 1.
EOF
"$1" "$folder/log" | diff "$folder/expected" - || {
  echo "another table was expected" >&2
  exit 1
}

#!/usr/bin/env bash
# asan.sh BUILD [JOBS]: builds the fast tests' programs in a configured folder and runs them, one
# after the other, those first whose tests changed last. Programs that begin after ASAN_UNTIL
# (seconds since 1970; empty: never), or are not built ten minutes after it, are left out and named.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
jobs=${2:-$(nproc)}

# Tests that run such a program once more (nn_test_avx2) are not programs, and left to other builds.
built=$(ninja -C "$build" -t targets all | sed -nE 's|^bin/tests/([a-z_]+): .*|\1|p')
fast=$(ctest --test-dir "$build" --show-only --label-regex '^fast$' 2>/dev/null |
  sed -nE 's/^ *Test +#[0-9]+: //p' | grep -Fx "$built")

# "PROGRAM SOURCE" a line, for every source of every program; joined files name their parts.
sources=$(for program in $fast; do
  objects=tests/CMakeFiles/$program.dir
  ninja -C "$build" -t query "bin/tests/$program" 2>/dev/null | sed -nE "s|^ +$objects/(.*)\.o\$|\1|p" |
    while read -r source; do
      if [[ $source == Unity/* ]]; then
        sed -nE "s|^#include \"($PWD/)?(.*)\"\$|$program \2|p" "$build/$objects/${source%.cxx}.cxx"
      else
        echo "$program tests/$source"
      fi
    done
done)
mapfile -t files < <(cut -d' ' -f2 <<<"$sources")
mapfile -t programs < <({
  scripts/by_change.sh "${files[@]}" |
    awk 'NR == FNR {of[$2] = $1; next} {print of[$1]}' <(echo "$sources") -
  echo "$fast"  # those whose sources are not known
} | awk '!seen[$0]++')
for program in "${programs[@]}"; do
  within=()
  if [[ -n "${ASAN_UNTIL:-}" ]]; then
    left=$((ASAN_UNTIL - $(date +%s)))
    within=(timeout $((left + 600)))
    if ((left < 0)); then
      echo "asan: no time left for $program"
      continue
    fi
  fi
  # The first program builds the whole library, too, which may take half an hour.
  status=0
  "${within[@]}" cmake --build "$build" --parallel "$jobs" --target "$program" || status=$?
  if ((status == 124)); then
    echo "asan: no time left for $program"
    continue
  fi
  ((status == 0)) || exit "$status"
  ctest --preset asan --tests-regex "^$program\$"
done

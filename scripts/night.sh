#!/usr/bin/env bash
# night.sh [BUILD] [FUZZ_HOURS]: what takes too long for every day, on a tree built with tests
# (default build/release): a fault at every call below reading and writing, a thousand kills, and
# FUZZ_HOURS (1) hours of fuzzing in equal parts. Appends to BUILD/night.log what was done: when, what,
# for how long, with which seed, and how it ended. Seeds follow from the day, so that nights differ.
set -uo pipefail
build=$(realpath "${1:-$(dirname "$0")/../build/release}")
hours=${2:-1}
seed=$(($(date +%s) / 86400))
log=$build/night.log
failed=0

# note NAME COMMAND...: runs it, keeps its output beside the log, and adds a line.
note() {
  local name=$1 begin=$SECONDS result=passed
  shift
  "$@" >"$build/night-$name.txt" 2>&1 || { result=FAILED; failed=1; }
  printf '%s %-16s %6d s  seed %d  %s  %s\n' "$(date -u +%FT%TZ)" "$name" $((SECONDS - begin)) \
    "$seed" "$result" "$(grep -E ' faults$| kills in |inputs in' "$build/night-$name.txt" |
      tr '\n' ';')" | tee -a "$log"
}

tests=$build/bin/tests
cd "$(mktemp -d)" || exit 1
ATTNLAB_FAULT_POINTS=0 note faults "$tests/integration_test" --gtest_filter='*InjectedFaults*'
ATTNLAB_KILLS=1000 ATTNLAB_KILL_SEED=$seed note kills "$tests/integration_test" \
  --gtest_filter='Kills.*'
targets=("$tests"/*_fuzz)
for target in "${targets[@]}"; do
  ATTNLAB_FUZZ_SEED=$seed ATTNLAB_FUZZ_SECONDS=$((hours * 3600 / ${#targets[@]})) \
    note "$(basename "$target")" "$target"
done
exit $failed

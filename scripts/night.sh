#!/usr/bin/env bash
# night.sh [BUILD] [FUZZ_HOURS] [all|fuzz]: what takes too long for every day, on a tree built with
# tests (default build/release): a fault at every call below reading and writing, a thousand kills,
# and FUZZ_HOURS (1) hours of fuzzing in equal parts; or the fuzzing alone. Fuzzed is what build/asan
# has, where it is built, since that finds more; else BUILD.
#
# What is kept stands in nights/ of the checkout ($ATTNLAB_NIGHTS), which cleaning leaves alone:
#   night.log   a line for each thing done: when, what, for how long, with which seed, how it ended
#   corpus/     inputs that were taken: the next part goes on from them
#   crashes/    inputs that were findings: NAME_fuzz FILE tries one again
# scripts/fuzz_hours.sh sums the log. Seeds follow from the time: no two parts repeat each other.
set -uo pipefail
root=$(realpath "$(dirname "$0")/..")
build=$(realpath "${1:-$root/build/release}")
hours=${2:-1}
what=${3:-all}
seed=$(date +%s)
mkdir -p "${ATTNLAB_NIGHTS:-$root/nights}" || exit 1
kept=$(realpath "${ATTNLAB_NIGHTS:-$root/nights}")
log=$kept/night.log
failed=0

# note NAME COMMAND...: runs it, keeps its output beside the log, and adds a line.
note() {
  local name=$1 begin=$SECONDS result=passed
  shift
  "$@" >"$kept/night-$name.txt" 2>&1 || { result=FAILED; failed=1; }
  printf '%s %-16s %6d s  seed %d  %s  %s\n' "$(date -u +%FT%TZ)" "$name" $((SECONDS - begin)) \
    "$seed" "$result" "$(grep -E ' faults$| kills in |inputs in' "$kept/night-$name.txt" |
      tr '\n' ';')" | tee -a "$log"
}

tests=$build/bin/tests
cd "$(mktemp -d)" || exit 1
if [[ "$what" == all ]]; then
  ATTNLAB_FAULT_POINTS=0 note faults "$tests/integration_test" --gtest_filter='*InjectedFaults*'
  ATTNLAB_KILLS=1000 ATTNLAB_KILL_SEED=$seed note kills "$tests/integration_test" \
    --gtest_filter='Kills.*'
fi
shopt -s nullglob
targets=("$root"/build/asan/bin/tests/*_fuzz)
((${#targets[@]} > 0)) || targets=("$tests"/*_fuzz)
for target in "${targets[@]}"; do
  ATTNLAB_FUZZ_SEED=$seed ATTNLAB_FUZZ_FOLDER=$kept \
    ATTNLAB_FUZZ_SECONDS=$(awk "BEGIN { print int($hours * 3600 / ${#targets[@]}) }") \
    note "$(basename "$target")" "$target"
done
exit $failed

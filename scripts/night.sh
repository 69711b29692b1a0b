#!/usr/bin/env bash
# night.sh [BUILD] [FUZZ_HOURS] [all|faults[-COMMAND[-KIND]]|fuzz]
# night.sh try NAME_fuzz FILE: tries an input of crashes/ again, under the same limits
#
# What takes too long for every day, on a tree built with tests (default build/release): a thousand
# kills, where `make tsan` has built them the tests of our threads with ThreadSanitizer, a fault at
# every call below reading and writing (an hour or two), and, where `make fuzz` has built its targets,
# FUZZ_HOURS (1; 0: none) hours of fuzzing in equal parts, hours of one core; or the faults alone (of
# a command, of a kind), or the fuzzing. Of faults and fuzzing, as many parts run at a time as there
# are cores.
#
# What is kept stands in nights/ of the checkout ($ATTNLAB_NIGHTS), which cleaning leaves alone:
#   night.log   a line for each thing done: when, what, for how long, with which seed, how it ended
#   corpus/     inputs that reached something new: the next part goes on from them
#   crashes/    inputs that were findings
# scripts/fuzz_hours.sh sums the log. Seeds follow from the time: no two parts repeat each other.
set -uo pipefail
root=$(realpath "$(dirname "$0")/..")
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:new_delete_type_mismatch=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
limits=(-timeout=10 -malloc_limit_mb=256 -rss_limit_mb=2048 -max_len=65536 -detect_leaks=0)
if [[ "${1:-}" == try ]]; then
  exec "$root/build/fuzz/bin/tests/$2" "${limits[@]}" "$3"
fi
build=$(realpath "${1:-$root/build/release}")
hours=${2:-1}
what=${3:-all}
case $what in
  all | fuzz | faults*) ;;
  *) echo "$0: $what: none of all, faults, fuzz" >&2; exit 2 ;;
esac
seed=$(date +%s)
mkdir -p "${ATTNLAB_NIGHTS:-$root/nights}" || exit 1
kept=$(realpath "${ATTNLAB_NIGHTS:-$root/nights}")
log=$kept/night.log
failed=0

# note NAME COMMAND...: runs it, keeps its output beside the log, and adds a line. Status 2: it could
# not be done.
note() {
  local name=$1 begin=$SECONDS result=passed status=0
  shift
  "$@" >"$kept/night-$name.txt" 2>&1 || status=$?
  ((status == 0)) || result=FAILED
  ((status != 2)) || result=UNDONE
  printf '%s %-22s %6d s  seed %d  %s  %s\n' "$(date -u +%FT%TZ)" "$name" $((SECONDS - begin)) \
    "$seed" "$result" "$(grep -E ' faults$| kills in |inputs in' "$kept/night-$name.txt" |
      tr '\n' ';')" | tee -a "$log"
  [[ $result == passed ]]
}

work=$(mktemp -d)
trap 'kill $(jobs -rp) 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
tests=$build/bin/tests
if [[ "$what" == all ]]; then
  ATTNLAB_KILLS=1000 ATTNLAB_KILL_SEED=$seed note kills "$tests/integration_test" \
    --gtest_filter='Kills.*' || failed=1
  threads=$root/build/tsan/bin/tests/threads_test
  if [[ -x "$threads" ]]; then
    TSAN_OPTIONS=halt_on_error=1:suppressions=$root/tests/threads/tsan.supp \
      note threads "$threads" || failed=1
  else
    echo "no ThreadSanitizer: make tsan builds its tests" >&2
  fi
fi

# beside COMMAND...: runs it while other parts run, once fewer than there are cores do.
beside() {
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || failed=1; done
  "$@" &
}
wait_for_all() {
  while (($(jobs -p | wc -l) > 0)); do wait -n || failed=1; done
}

if [[ "$what" == all || "$what" == faults* ]]; then
  # Each command is a test; with each kind of fault a part.
  mapfile -t commands < <("$tests/integration_test" --gtest_list_tests \
    --gtest_filter='*InjectedFaults*' | awk '/^[^ ]/ {suite = $1} /^ / {print suite $1}')
  parts=0
  for test in "${commands[@]}"; do
    for kind in eio short eintr enospc fsync rename; do  # the longest first
      name=faults-${test##*/}-$kind
      [[ "$what" == all || "$name" == "$what"* ]] || continue
      ((++parts))
      beside note "$name" env ATTNLAB_FAULT_POINTS=0 ATTNLAB_FAULT_KIND=$kind \
        "$tests/integration_test" --gtest_filter="$test"
    done
  done
  wait_for_all
  ((parts > 0)) || { echo "no part of the tests of faults is called $what" >&2; failed=1; }
fi

llvm=$(dirname "$(readlink -f "$(command -v clang++)")")

# lines_reached TARGET CORPUS...: "A of B lines reached", of the files that the target's source names.
lines_reached() {
  local target=$1 name library objects=()
  name=$(basename "$target")
  shift
  LLVM_PROFILE_FILE=$name-%m.profraw "$target" -runs=0 "$@" >/dev/null 2>&1 || return 1
  "$llvm/llvm-profdata" merge -o "$name.profdata" "$name"-*.profraw || return 1
  for library in "$root"/build/fuzz/lib/*.so; do objects+=(-object "$library"); done
  # Names of files in the table may be relative to the build's folder.
  "$llvm/llvm-cov" report -instr-profile "$name.profdata" "$target" "${objects[@]}" 2>/dev/null |
    awk 'NR == FNR {for (i = 3; i <= NF; ++i) named[$i]; next}
      match($1, /(framework|plugins)\/.*/) && substr($1, RSTART) in named {lines += $8; missed += $9}
      END {print lines - missed, "of", lines, "lines reached"}' \
      <(grep '^// Code: ' "$root/tests/fuzz/$name.cpp") -
}

# fuzz TARGET SECONDS: one part, and a line of what it did. @returns 1 after a finding, 2 where it
# could not be done.
fuzz() {
  local target=$1 seconds=$2 name corpus tried reached crash
  name=$(basename "$target")
  corpus=$kept/corpus/$name
  mkdir -p "$corpus" "$kept/crashes"
  export LLVM_PROFILE_FILE=$name.unused
  "$target" --seeds "$name.begin" || return 2
  touch "$name.started"
  # Seconds of the processor count, not of the clock: a machine that does other things, too, adds no hours.
  local TIMEFORMAT='%U %S' status
  # What libraries print of each input is left out; `try` shows it.
  { time "$target" -seed="$seed" -max_total_time="$seconds" "${limits[@]}" -close_fd_mask=3 \
    -dict="$name.begin/words" -artifact_prefix="$kept/crashes/$name-" -print_final_stats=1 \
    "$corpus" "$name.begin/seeds" 2>"$name.output"; } 2>"$name.time"
  status=$?
  tail -n 100 "$name.output"
  if ((status != 0)); then
    crash=$(find "$kept/crashes" -name "$name-*" -newer "$name.started" | head -n 1)
    [[ -n "$crash" ]] || return 2
    # The limit of seconds is one of the clock: on a busy machine any input may pass it.
    if [[ "$crash" == */"$name"-timeout-* ]] && "$target" "${limits[@]}" "$crash" >/dev/null 2>&1; then
      echo "$(basename "$crash"): no finding, it was in time when it was tried again"
      rm "$crash"
      status=0
    fi
  fi
  tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$name.output")
  reached=$(lines_reached "$target" "$corpus" "$name.begin/seeds") || ((status != 0)) || return 2
  seconds=$(awk 'END { printf "%.0f", $1 + $2 }' "$name.time")
  echo "$tried inputs in $seconds s, $(find "$corpus" -type f | wc -l) kept, $reached"
  return $((status != 0))
}

shopt -s nullglob
targets=("$root"/build/fuzz/bin/tests/*_fuzz)
if ((${#targets[@]} == 0)); then
  echo "no fuzzing: make fuzz builds its targets" >&2
  [[ "$what" != fuzz ]] || failed=1
fi
[[ "$what" != faults* ]] || targets=()
part=$(awk "BEGIN { print int($hours * 3600 / (${#targets[@]} + (${#targets[@]} == 0))) }")
((part > 0)) || targets=()  # libFuzzer takes 0 as no limit
for target in "${targets[@]}"; do
  beside note "$(basename "$target")" fuzz "$target" "$part"
done
wait_for_all
exit $failed

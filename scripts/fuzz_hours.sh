#!/usr/bin/env bash
# fuzz_hours.sh LOG...: what the logs of scripts/night.sh say of fuzzing, summed to a table of
# Markdown for docs/results/fuzzing.md. (A part with a finding ends there: its inputs are not known.)
set -euo pipefail
(($# > 0)) || { echo "usage: $0 LOG..." >&2; exit 2; }
echo '| target | hours | of them sanitised | inputs | taken | parts with a finding |'
echo '|---|---|---|---|---|---|'
awk '
  function add(name) {
    seconds[name] += spent; inputs[name] += tried; taken[name] += sound; findings[name] += failed
    if ($0 ~ /; sanitised/) sanitised[name] += spent
  }
  function row(name) {
    printf "| %s | %.1f | %.1f | %d | %d | %d |\n", name, seconds[name] / 3600,
      sanitised[name] / 3600, inputs[name], taken[name], findings[name]
  }
  $2 ~ /_fuzz$/ {
    name = substr($2, 1, length($2) - 5)
    spent = $3; tried = sound = 0; failed = / FAILED /
    if (match($0, /[0-9]+ inputs in [0-9]+ s, [0-9]+ taken/)) {
      split(substr($0, RSTART, RLENGTH), word, " ")
      tried = word[1]; spent = word[4]; sound = word[6]
    }
    if (!(name in seconds)) names[++count] = name
    add(name); add("all")
  }
  END {
    for (i = 2; i <= count; ++i) {  # by name
      for (j = i; j > 1 && names[j] < names[j - 1]; --j) {
        other = names[j]; names[j] = names[j - 1]; names[j - 1] = other
      }
    }
    for (i = 1; i <= count; ++i) row(names[i])
    row("all")
  }' "$@"

#!/usr/bin/env bash
# fuzz_hours.sh LOG...: what the logs of scripts/night.sh say of fuzzing, summed to a table of
# Markdown for docs/results/fuzzing.md. The lines reached are of a target's last part. (A part
# with a finding ends there: its inputs are not known. What could not be done does not count.)
set -euo pipefail
(($# > 0)) || { echo "usage: $0 LOG..." >&2; exit 2; }
echo '| target | hours | inputs | lines reached |'
echo '|---|---|---|---|'
awk '
  function grouped(n,   text) {  # 1,234,567
    text = sprintf("%.0f", n)
    while (match(text, /[0-9][0-9][0-9][0-9]($|,)/)) {
      text = substr(text, 1, RSTART) "," substr(text, RSTART + 1)
    }
    return text
  }
  function row(name) {
    printf "| %s | %.1f | %s | %s |\n", name, seconds[name] / 3600, grouped(inputs[name]),
      reached[name]
  }
  $2 ~ /_fuzz$/ && !/ UNDONE( |$)/ {
    name = substr($2, 1, length($2) - 5)
    if (!(name in seconds)) names[++count] = name
    spent = $3
    if (match($0, /[0-9]+ inputs in [0-9]+ s, [0-9]+ kept/)) {
      split(substr($0, RSTART, RLENGTH), word, " ")
      inputs[name] += word[1]; spent = word[4]
    }
    if (match($0, /[0-9]+ of [0-9]+ lines/)) {
      split(substr($0, RSTART, RLENGTH), word, " ")
      reached[name] = sprintf("%d of %d (%.0f %%)", word[1], word[3], 100 * word[1] / word[3])
    }
    seconds[name] += spent
    findings[name] += / FAILED( |$)/
  }
  END {
    for (i = 2; i <= count; ++i) {  # by name
      for (j = i; j > 1 && names[j] < names[j - 1]; --j) {
        other = names[j]; names[j] = names[j - 1]; names[j - 1] = other
      }
    }
    for (i = 1; i <= count; ++i) {
      row(names[i])
      seconds["all"] += seconds[names[i]]; inputs["all"] += inputs[names[i]]
      if (findings[names[i]] > 0) found = found ", " names[i] " " findings[names[i]]
    }
    row("all")
    print "\nParts with a finding: " (found == "" ? "none" : substr(found, 3)) "."
  }' "$@" | sed 's/|  |/| |/g'

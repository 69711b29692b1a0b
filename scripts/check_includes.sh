#!/usr/bin/env bash
# Fails where a file includes what must not know of it (CONTRIBUTING.md, "Arrows").
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0

# never WHY PATTERN PATH...: no file below the paths includes what begins with the pattern.
never() {
  local why=$1 pattern=$2
  shift 2
  if grep -rnE --include='*.h' --include='*.cpp' "^#include \"($pattern)" "$@"; then
    echo "  ^ $why" >&2
    failed=1
  fi
}

never "framework knows neither program nor plugins" 'runner/|plugins/|tests/' framework
never "the program knows plugins by their contracts" 'plugins/|tests/' runner
never "core knows nothing of tensors" 'framework/[^c]|framework/conformance/' framework/core

# Each folder of core knows those before it, and what stands in core itself.
above='report/|suites/|comparison/|runs/|experiment/|manifest/|config/'
never "core's own files know none of its folders" "framework/core/($above)" framework/core/*.h \
  framework/core/*.cpp
for folder in config manifest experiment runs comparison suites; do
  above=${above%"|$folder/"}
  never "core/$folder knows nothing of what comes after it" "framework/core/($above)" \
    "framework/core/$folder"
done
never "core/report reads what runs and comparisons left" 'framework/core/suites/' framework/core/report

# A plugin that is more than one file has a folder of its own, and includes that and framework/.
if ! { grep -rnE --include='*.h' --include='*.cpp' '^#include "(plugins|runner|tests)/' plugins ||
  true; } |
  awk -F: '{ own = $1; sub("[^/]*$", "", own); file = $3; sub(".*#include \"", "", file) }
           split(own, parts, "/") < 4 || index(file, own) != 1 { print; bad = 1 }
           END { exit bad }'; then
  echo "  ^ a plugin includes framework/ and its own folder" >&2
  failed=1
fi
exit "$failed"

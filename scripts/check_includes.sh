#!/usr/bin/env bash
# Fails where a file includes what must not know of it (docs/architecture.md, "Arrows").
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0

# The rooms of framework/, each with those that it may know beside itself and `base`. Arrows run down
# only: a room stands after all that it names. A new room is a line here.
rooms='
base:
config:
manifest:         config
experiment:       config manifest
costs:            experiment
runs:             config manifest experiment costs
document:
comparison:       config manifest costs runs document
suites:           config manifest experiment costs runs document comparison
report:           config manifest experiment costs runs document comparison
sharing:          config manifest experiment runs document comparison
tensor:
contracts:        tensor
nn/kernels:       tensor
nn/modules:       tensor contracts nn/kernels
nn/points:        tensor nn/kernels
nn/attention:     config tensor contracts nn/kernels nn/modules
nn/graph:         tensor nn/kernels nn/modules
data/formats:     tensor
data/image:       config tensor contracts data/formats
data/series:      config tensor contracts
data/text:        config tensor contracts data/formats
data:             config tensor contracts data/formats
data/points:      config tensor contracts data data/formats nn/points
data/detection:   config tensor contracts data/formats data/image
data/segmentation: config tensor contracts data/image
data/pictures:    config tensor data data/formats data/image data/detection data/segmentation
data/graph:       config tensor contracts data
nn/backbones:     tensor contracts nn/kernels nn/modules nn/attention
nn/boxes:         tensor nn/modules nn/attention
eval:             config tensor contracts
eval/detection:   config tensor contracts nn/boxes eval
eval/segmentation: config tensor contracts eval
studies:          config manifest tensor
host:             config manifest experiment tensor contracts
train:            config experiment costs runs tensor contracts nn/kernels data data/formats host
conformance:      manifest tensor contracts nn/attention data/formats host
'

# "file:line:include" of every include of ours below the folders.
includes() {
  { grep -rnE --include='*.h' --include='*.cpp' '^#include "(framework|plugins|runner|tests)/' "$@" ||
    true; } | sed -E 's/#include "([^"]*)".*/\1/'
}

complain() {
  echo "$1"
  echo "  ^ $2" >&2
  failed=1
}

# Everything in framework/ stands in a room (plugin.h, the one header of plugins, aside), and knows
# only what its room may know.
while IFS= read -r line; do
  complain "$line" "$(cut -d: -f1 <<<"$line" | sed -E 's#/[^/]*$##') must not know that room"
done < <(includes framework | awk -F: -v rooms="$rooms" '
  function room_of(path,   folder) {  # the longest room that the path lies in; "" for none
    folder = path
    sub("^framework/", "", folder)
    while (sub("/[^/]*$", "", folder)) if (folder in may) return folder
    return ""
  }
  BEGIN {
    count = split(rooms, lines, "\n")
    for (i = 1; i <= count; ++i) {
      if (split(lines[i], sides, ":") < 1 || sides[1] == "") continue
      may[sides[1]] = " base " sides[1] " " sides[2] " "
    }
  }
  {
    if ($1 == "framework/plugin.h") next
    own = room_of($1)
    other = room_of($3)
    if (own == "" || other == "" || index(may[own], " " other " ") == 0) print
  }')

while IFS= read -r line; do
  complain "$line" "the program knows plugins by their contracts"
done < <(includes runner | awk -F: '$3 !~ "^(framework|runner)/"')

# A plugin that is more than one file has a folder of its own, and includes that and framework/.
while IFS= read -r line; do
  complain "$line" "a plugin includes framework/ and its own folder"
done < <(includes plugins | awk -F: '$3 !~ "^framework/" {
  own = $1; sub("[^/]*$", "", own)
  name = own; sub("/$", "", name); sub(".*/", "", name)
  if (index($3, own) != 1 || system("test -e " own name ".cpp") != 0) print }')

# One meaning of a whole number: see framework/base/json.h.
while IFS= read -r line; do
  complain "$line" "framework/base/json.h, which checks whole numbers"
done < <(grep -rnE '^#include <nlohmann/json\.hpp>' framework plugins runner tests |
  grep -v '^framework/base/json\.h:')
exit "$failed"

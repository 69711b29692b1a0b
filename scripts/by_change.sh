#!/usr/bin/env bash
# Prints the given files, one per line, those first that changed last.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$(printf '%s\n' "$@")
{
  git status --porcelain --untracked-files=all | cut -c4-
  git log --format= --name-only
  printf '%s\n' "$wanted"
} | grep -Fx -f <(printf '%s\n' "$wanted") | awk '!seen[$0]++'

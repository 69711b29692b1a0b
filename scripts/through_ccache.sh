#!/bin/sh
# through_ccache.sh COMPILER ARGUMENTS...: compiles through ccache.
#
# Paths count relative to the source folder, so that a second clone finds what the first one
# compiled; precompiled headers need the sloppinesses (and -fpch-preprocess, CMakeLists.txt).
# Two rules for a precompiled header. One that stands where the new one goes is removed first: ccache
# asks GCC's preprocessor what is included, and with that file there it reads it instead of the
# headers. And the headers' files are compared, not their preprocessed text (CCACHE_DEPEND): a
# precompiled header remembers the size and the sum of each `#pragma once` file, so that one of
# before a changed comment knows the changed file no more, and includes it twice ("redefinition of").
for word; do
  case $word in
    *.gch) rm -f -- "$word"; CCACHE_DEPEND=1; export CCACHE_DEPEND ;;
  esac
done
CCACHE_BASEDIR=$(cd "$(dirname "$0")/.." && pwd)
CCACHE_NOHASHDIR=1
CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_SLOPPINESS
exec "${ATTNLAB_CCACHE:-ccache}" "$@"

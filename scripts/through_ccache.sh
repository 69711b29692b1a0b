#!/bin/sh
# through_ccache.sh COMPILER ARGUMENTS...: compiles through ccache.
#
# Paths count relative to the source folder, so that a second clone finds what the first one
# compiled; precompiled headers need the sloppinesses (and -fpch-preprocess, CMakeLists.txt).
# A precompiled header that stands where the new one goes is removed first: ccache asks GCC's
# preprocessor what is included, and with that file there it reads it instead of the headers. A
# precompiled header of other headers would come out of the cache. A header that is edited while a
# build runs can do the same ("redefinition of ..."): remove the .gch and build with CCACHE_RECACHE=1.
for word; do
  case $word in
    *.gch) rm -f -- "$word" ;;
  esac
done
CCACHE_BASEDIR=$(cd "$(dirname "$0")/.." && pwd)
CCACHE_NOHASHDIR=1
CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_SLOPPINESS
exec "${ATTNLAB_CCACHE:-ccache}" "$@"

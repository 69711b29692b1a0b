#!/usr/bin/env bash
# Runs a program held to an instruction set, libraries included; exit status 77 where the processor
# lacks it.
#
#   tests/support/with_cpu.sh sse4|avx2|avx512 PROGRAM [ARG ...]
#
# With ATTNLAB_BUT_BEST=1 sse4 and avx2 are skipped where they are the best of the processor: a test's plain run
# has them. avx512 is not: libraries then take what goes beyond it.
# The program attnlab needs no more than ATTNLAB_CPU; tests bring LibTorch as they start, so that its
# libraries must be told before (framework/base/processor.cpp has the same words).
set -euo pipefail

case "$1" in
  sse4) flag=sse4_2 better=avx2 aten=default blas=Nehalem dnn=SSE41 xsmm=wsm mkl=SSE4_2 ;;
  avx2) flag=avx2 better=avx512bw aten=avx2 blas=Haswell dnn=AVX2 xsmm=hsw mkl=AVX2 ;;
  avx512) flag=avx512bw better='' aten=avx512 blas=SkylakeX dnn=AVX512_CORE xsmm=skx mkl='' ;;
  *)
    echo "with_cpu.sh: unknown instruction set '$1'; it must be sse4, avx2 or avx512" >&2
    exit 2
    ;;
esac
if ! grep -qw "$flag" /proc/cpuinfo; then
  echo "with_cpu.sh: skipped, this processor has no $1"
  exit 77
fi
if [[ "${ATTNLAB_BUT_BEST:-}" == 1 ]] && [[ -n "$better" ]] && ! grep -qw "$better" /proc/cpuinfo; then
  echo "with_cpu.sh: skipped, $1 is the best that this processor has"
  exit 77
fi
export ATTNLAB_CPU=$1 ATEN_CPU_CAPABILITY=$aten OPENBLAS_CORETYPE=$blas
export ONEDNN_MAX_CPU_ISA=$dnn DNNL_MAX_CPU_ISA=$dnn LIBXSMM_TARGET=$xsmm MKL_ENABLE_INSTRUCTIONS=$mkl
shift
exec "$@"

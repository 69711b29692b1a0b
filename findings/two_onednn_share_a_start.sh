#!/usr/bin/env bash
# PyTorch 2.15.0 from PyPI beside oneDNN 2.6.3 of Debian 12 (libdnnl2). PyTorch has another oneDNN inside
# libtorch_cpu.so, whose names are hidden, except for weak symbols of std::call_once that name its types. Debian's
# libdnnl finds those in the process and begins with the other library's kernels instead of its own: dnnl_sgemm
# computes nothing and answers 3 (dnnl_unimplemented), which its documentation does not lead a caller to expect of a
# plain product. The same program without libtorch_cpu.so in its process computes it. So a program that uses PyPI's LibTorch must not link the system's oneDNN
# (Debian's LibTorch uses that same library, and is not concerned).
# Seen: the answer of dnnl_sgemm, and how many of 4096 numbers of a product of ones and twos are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
(mkdir deb && cd deb && apt-get -qq download libdnnl2=2.6.3-1 libdnnl-dev=2.6.3-1 2>/dev/null)
for one in deb/*.deb; do dpkg-deb -x "$one" root; done
python3 -m pip install --quiet --no-deps --python-version 3.11 --only-binary :all: --target site torch==2.15.0 \
  nvidia-cuda-cupti==13.2.86 nvidia-cuda-runtime==13.2.86
cat > product.cpp <<'END'
#include <dnnl.h>
#include <algorithm>
#include <cstdio>
#include <vector>
int main() {
  const int n = 64;
  std::vector<float> a(n * n, 1.0f), b(n * n, 2.0f), c(n * n, 0.0f);
  const int answer = dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
  std::printf("answer %d, %d right\n", answer, int(std::count(c.begin(), c.end(), 128.0f)));
}
END
library=root/usr/lib/x86_64-linux-gnu torch=site/torch/lib
g++ product.cpp -Iroot/usr/include -L"$library" -l:libdnnl.so.2 -o product
export LD_LIBRARY_PATH=$library
{
  echo "alone: $(./product)"
  echo "beside PyTorch: $(LD_PRELOAD=$torch/libtorch_cpu.so ./product)"
} | tee seen.txt
diff seen.txt - <<'END'
alone: answer 0, 4096 right
beside PyTorch: answer 3, 0 right
END

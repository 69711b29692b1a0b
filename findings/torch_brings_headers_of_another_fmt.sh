#!/usr/bin/env bash
# PyTorch on PyPI, from 2.8.0 on (seen up to 2.15.0, not yet in 2.7.1): the wheel has
# headers of fmt in torch/include (2.8.0: fmt 11.2.0; 2.14.1 and 2.15.0: 12.2.1), and no library of it. A C++ program that
# includes LibTorch's headers, and links the fmt of its system (Debian 12: 9.1.0), compiles with the wheel's headers,
# since /usr/include comes last whatever order the build asks for, and then does not link: undefined reference to
# fmt::v11::vformat. A build that ccache has seen before stays broken when a folder with the right headers is put in
# front: delete its cache, or set CCACHE_RECACHE.
# Seen: which release of fmt a source includes that asks for <fmt/format.h> with each wheel, and how its link ends.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
(mkdir fmt && cd fmt && apt-get -qq download libfmt-dev=9.1.0+ds1-2 libfmt9=9.1.0+ds1-2 2>/dev/null)
for one in fmt/*.deb; do dpkg-deb -x "$one" fmt; done
for release in 2.7.1 2.8.0; do
  python3 -m pip download --quiet --no-deps --python-version 3.11 --only-binary :all: --dest "$release" "torch==$release"
  python3 - "$release" <<'END'
import glob
import sys
import zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as wheel:
    names = [one for one in wheel.namelist() if one.startswith(("torch/include/fmt/", "torch/include/c10/macros/"))]
    wheel.extractall(sys.argv[1], names)
END
  rm "$release"/*.whl
done
cat > say.cpp <<'END'
#include <fmt/format.h>
int main() { return fmt::format("{} {}", 1, "a").size() == 3 ? 0 : 1; }
END
headers=fmt/usr/include library=fmt/usr/lib/x86_64-linux-gnu
for release in 2.7.1 2.8.0; do
  # As the compiler searches its own folders: behind all that a build names.
  includes=(-isystem "$release/torch/include" -idirafter "$headers")
  version=$(echo '#include <fmt/core.h>' | g++ "${includes[@]}" -x c++ -dM -E - | awk '/define FMT_VERSION/ {print $3}')
  ended=links
  g++ -std=c++17 "${includes[@]}" say.cpp -L"$library" -l:libfmt.so.9 -o say 2>link.txt ||
    ended="undefined $(grep -o 'fmt::v[0-9]*::vformat' link.txt | sort -u)"
  echo "torch $release: FMT_VERSION $version, $ended"
done | tee seen.txt
diff seen.txt - <<'END'
torch 2.7.1: FMT_VERSION 90100, links
torch 2.8.0: FMT_VERSION 110200, undefined fmt::v11::vformat
END

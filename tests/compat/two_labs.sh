#!/usr/bin/env bash
# Two labs with two LibTorchs: lab A on this machine, lab B in a throw-away Debian of another release.
# A makes an attention, signs it, and publishes it over a web server on the loopback address; B finds
# and installs it, where the binary is refused by its stamp and the source is built; B trains with it
# and packs the result; A repeats that.
#
#   tests/compat/two_labs.sh RELEASE PREFIX
#   tests/compat/two_labs.sh trixie $HOME/attnlab
#
# PREFIX is where attnlab of this source is installed. Everything else as in compat.sh: needs root,
# debootstrap, 5 GB. Prints what each lab says. Exit status: 0 where every step succeeds.
set -euo pipefail
(($# == 2)) || { echo "usage: tests/compat/two_labs.sh RELEASE PREFIX" >&2; exit 2; }
release=$1
attnlab=$2/bin/attnlab
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server=
trap '[[ -z "$server" ]] || kill "$server"; rm -rf "$work"' EXIT

say() { printf '\n== %s\n' "$*"; }
lab_a() { (cd "$work/a" && HOME=$work/a ATTNLAB_PLUGIN_PATH= "$attnlab" "$@" </dev/null); }

mkdir -p "$work/a/public"
say "lab A, $(uname -m), $("$attnlab" --version | head -n 1): make, sign, publish"
lab_a new attention sharper --lab acme
lab_a key new acme
lab_a plugin pack sharper --out public --binary --time-limit 1800
lab_a index make public --lab acme
python3 -c '
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
with open(sys.argv[2], "w") as out:
    out.write(str(server.server_address[1]))
server.serve_forever()' "$work/a/public" "$work/port" 2>/dev/null &
server=$!
until [[ -s "$work/port" ]]; do sleep 0.1; done

say "lab B, Debian $release"
ROOTS=${ROOTS:-${TMPDIR:-/tmp}/attnlab-compat}
"$here/compat.sh" "$release" tests/compat/lab_b.sh "http://127.0.0.1:$(<"$work/port")"

say "lab A: repeat what lab B measured"
lab_a reproduce "$ROOTS/$release/srv/lab_b/two-1.0.0.attnlab" --yes --time-limit 1800

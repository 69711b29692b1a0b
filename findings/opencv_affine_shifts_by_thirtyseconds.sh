#!/usr/bin/env bash
# opencv-python-headless 4.12.0.88 and 5.0.0.93 (PyPI), numpy 2.2.6: how far warpAffine and remap shift a picture of
# float32 with INTER_LINEAR. 4.12 knows only shifts by whole 32nds of a pixel: a shift by 0.01 leaves every number as it
# was, one by 0.1 is one by 0.09375, and the two functions round 1/64 to different sides. 5.0 shifts by what was asked.
# A rotation, an augmentation or a map of displacements is other numbers by version, and its derivative is none in 4.x.
# The documentation of both functions says nothing of it (opencv/opencv#26361 is about 4.8).
# Seen, of a picture that rises by 1 a pixel, the shift asked for, by warpAffine and by remap:
#   4.12.0: 0.01 0.0 0.0, 0.015625 0.03125 0.0, 0.02 0.03125 0.03125, 0.1 0.09375 0.09375, 0.26 0.25 0.25
#   5.0.0: 0.01 0.01 0.01, 0.015625 0.015625 0.015625, 0.02 0.02 0.02, 0.1 0.1 0.1, 0.26 0.26 0.26
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
seen=""
for version in 4.12.0.88 5.0.0.93; do
  "$folder/v/bin/pip" -q install --disable-pip-version-check "opencv-python-headless==$version" numpy==2.2.6
  seen+=$("$folder/v/bin/python" - <<'P'
import cv2
import numpy as np
ramp = np.tile(np.arange(64, dtype=np.float32), (8, 1))
x, y = np.meshgrid(np.arange(64, dtype=np.float32), np.arange(8, dtype=np.float32))
def told(moved):
    return round(float(moved[4, 20] - ramp[4, 20]), 6)
words = []
for shift in (0.01, 1 / 64, 0.02, 0.1, 0.26):
    warped = cv2.warpAffine(ramp, np.float32([[1, 0, -shift], [0, 1, 0]]), (64, 8), flags=cv2.INTER_LINEAR)
    mapped = cv2.remap(ramp, x + np.float32(shift), y, cv2.INTER_LINEAR)
    words.append(f"{shift} {told(warped)} {told(mapped)}")
print(f"{cv2.__version__}: " + ", ".join(words))
P
)$'\n'
done
printf '%s' "$seen"
diff <(printf '%s' "$seen") - <<'E2'
4.12.0: 0.01 0.0 0.0, 0.015625 0.03125 0.0, 0.02 0.03125 0.03125, 0.1 0.09375 0.09375, 0.26 0.25 0.25
5.0.0: 0.01 0.01 0.01, 0.015625 0.015625 0.015625, 0.02 0.02 0.02, 0.1 0.1 0.1, 0.26 0.26 0.26
E2

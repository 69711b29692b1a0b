#!/usr/bin/env bash
# lab_b.sh URL: what two_labs.sh does in the other Debian, in a copy of the source that it may change.
set -euo pipefail
url=$1
attnlab=/opt/attnlab/bin/attnlab
lab=/srv/lab_b

# Parts that the experiment does not use are not built.
shopt -s extglob
rm -rf plugins/models/!(vit.cpp) plugins/datasets/!(images) plugins/tasks/!(images) \
  plugins/datasets/images/!(synthetic_images.cpp) plugins/tasks/images/!(image_classification.cpp)
cmake --preset release -DATTNLAB_TESTS=OFF
cmake --build build/release --parallel "$(nproc)"
cmake --install build/release --prefix /opt/attnlab >/dev/null

rm -rf "$lab"
mkdir -p "$lab"
cd "$lab"
export HOME=$lab
cat >two.yaml <<'END'
schema: 1
baseline: standard
attentions: [standard, sharper]
experiments: [small.yaml]
seeds: [0, 1]
END
cat >small.yaml <<'END'
schema: 1
name: small
model: {use: vit, patch_size: 7, dim: 16, depth: 1, heads: 2}
attention: {use: standard}
task: {use: image_classification}
dataset: {use: synthetic_images, train: 64, test: 32}
train: {epochs: 1, batch_size: 16, log_every: 1, threads: 1}
END
set -x
"$attnlab" index add "$url" --yes
"$attnlab" plugin search Learned
"$attnlab" plugin install acme/sharper --time-limit 1800
"$attnlab" plugin verify
"$attnlab" suite two.yaml
"$attnlab" key new borealis
"$attnlab" suite pack runs/two

#!/usr/bin/env bash
# x-transformers 1.30.23 and 1.31.14 (PyPI), einops 0.8.2, with Debian's PyTorch 1.13.0 (python3-torch): weights that one
# version saved load strictly into the other, without a word, and the model answers otherwise. In 1.31.14 a gain of a
# norm is what is saved plus one (norm_add_unit_offset, by default), under the same name and in the same shape. New models
# start alike, at 0 + 1 in place of 1, so that a test of fresh models sees nothing; 2.31.10 has the offset, too.
# Seen, of a decoder of 2 layers whose gains are random near 1, largest difference of its logits:
#   layer norm: strict loading refused
#   rms norm: strict loading succeeds, off by more than 0.1; gains less one: the same to 1e-5
#   scale norm: strict loading succeeds, off by more than 0.1; gains less one: the same to 1e-5
# Who carries weights over takes 1 from every gain, or says norm_add_unit_offset=False (attn_layers' option).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/build.py" <<'P'
import sys
import torch
from x_transformers import Decoder, TransformerWrapper
tokens = torch.arange(12)[None] * 4
for norm, options in (("layer", {}), ("rms", {"use_rmsnorm": True}), ("scale", {"use_scalenorm": True})):
    torch.manual_seed(0)
    layers = Decoder(dim=64, depth=2, heads=2, attn_dim_head=32, **options)
    model = TransformerWrapper(num_tokens=50, max_seq_len=12, attn_layers=layers).eval()
    file = f"{sys.argv[2]}/{norm}.pt"
    if sys.argv[1] == "save":
        with torch.no_grad():
            for name, gain in model.named_parameters():
                if name.endswith((".g", ".gamma")):
                    gain += 0.2 * torch.randn_like(gain)
            torch.save((model.state_dict(), model(tokens)), file)
        continue
    weights, answer = torch.load(file)
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError:
        print(f"{norm} norm: strict loading refused")
        continue
    def off():
        with torch.no_grad():
            return (model(tokens) - answer).abs().max().item()
    first = off()
    model.load_state_dict({name: x - 1 if name.endswith((".g", ".gamma")) else x for name, x in weights.items()})
    print(f"{norm} norm: strict loading succeeds, off by {'more' if first > 0.1 else 'less'} than 0.1; "
          f"gains less one: {'the same to 1e-5' if off() < 1e-5 else 'other'}")
P
for version in 1.30.23 1.31.14; do
  /usr/bin/python3 -m pip -q install --no-deps --disable-pip-version-check --root-user-action ignore \
    --target "$folder/$version" "x-transformers==$version" einops==0.8.2 packaging==26.4 loguru==0.7.3
done
export OMP_NUM_THREADS=1
PYTHONPATH=$folder/1.30.23 /usr/bin/python3 "$folder/build.py" save "$folder"
seen=$(PYTHONPATH=$folder/1.31.14 /usr/bin/python3 "$folder/build.py" load "$folder")
printf '%s\n' "$seen"
diff <(printf '%s\n' "$seen") - <<'E2'
layer norm: strict loading refused
rms norm: strict loading succeeds, off by more than 0.1; gains less one: the same to 1e-5
scale norm: strict loading succeeds, off by more than 0.1; gains less one: the same to 1e-5
E2

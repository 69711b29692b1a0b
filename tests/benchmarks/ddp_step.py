#!/usr/bin/env python3
"""The rival: a training step of PyTorch's DistributedDataParallel in several processes, by Gloo.

    vit              vit_step.py's, batch 16
    transformer_xl   lm_step.py's, batch 12

The batch is shared out equally. Serves a driver and is tuned as vit_step.py is. Settings beside
those of vit_step.py or lm_step.py:
  bucket      largest number of MiB of gradients that are summed at once, while the backward pass
              goes on
  view        whether gradients lie in the buckets (gradient_as_bucket_view)
  static      whether it may rely on a graph that stays the same (static_graph)
  bind        whether each process is bound to an equal share of the cores
Buffers are not sent: none of them changes.
"""
import json
import os
import sys

import lm_step
import paired
import vit_step

BASE = {"bucket": 25, "view": True, "static": False, "bind": False}
CANDIDATES = [
    ("bucket", [1, 5, 100]),
    ("view", [False]),
    ("static", [True]),
    ("bind", [True]),
]


def make_step(settings, threads, name):
    """In one of the processes."""
    import torch  # here, because the environment must be set before
    count = int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + os.environ["ATTNLAB_MEETING"],
        rank=int(os.environ["RANK"]), world_size=count)

    def wrap(model):
        return torch.nn.parallel.DistributedDataParallel(
            model, bucket_cap_mb=settings["bucket"], broadcast_buffers=False,
            gradient_as_bucket_view=settings["view"], static_graph=settings["static"])

    if name == "vit":
        vit_step.BATCH //= count
        return vit_step.make_step(settings, threads, wrap=wrap)
    lm_step.LINES //= count
    return lm_step.make_step(settings, threads, name, wrap)


def main():
    parser = vit_step.parser_of(__doc__)
    parser.add_argument("--model", choices=["vit", "transformer_xl"], default="vit")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        vit_step.serve(make_step(json.loads(arguments.settings), arguments.threads, arguments.model))
        return
    script = [os.path.abspath(__file__), "--model", arguments.model,
              "--processes", str(arguments.processes)]
    base, candidates = vit_step.BASE, vit_step.CANDIDATES
    if arguments.model != "vit":
        base, candidates = lm_step.BASE, lm_step.CANDIDATES + lm_step.XL_CANDIDATES

    def start(settings, threads):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        command = [sys.executable, *script, "--threads", str(threads),
                   "--settings", json.dumps(settings)]
        return paired.Processes("DDP", command, arguments.processes, settings["bind"])

    vit_step.run(arguments, script, {**base, **BASE}, candidates + CANDIDATES, start,
                 count=2 if arguments.model == "vit" else 10)


if __name__ == "__main__":
    main()

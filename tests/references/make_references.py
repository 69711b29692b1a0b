#!/usr/bin/env python3
"""What public implementations make of the same queries, keys and values: inputs, parameters, outputs and gradients, a
file for each comparison. compare_references.py holds attnlab's mechanisms against them.

  python3 -m venv venv
  venv/bin/pip install torch==2.9.1 torchvision==0.24.1 numpy==2.4.6 transformers==5.24.0 x-transformers==2.31.10 \\
      fla-core==0.6.0 entmax==1.3 timm==1.0.31
  venv/bin/python tests/references/make_references.py FOLDER
  PYTHONPATH=python /usr/bin/python3 tests/references/compare_references.py FOLDER

Each reference is the package's own function or module. Where a module makes queries, keys and values itself, its maps
are replaced by ones that hand it ours, its map of the output by the identity, and its short convolution passes its
input on. Numbers are float64; what a package computes in float32 whatever it gets stays so. The norm behind a
recurrence gets an eps that is divided by D where the package scales queries by 1/sqrt(D) and attnlab does not: the
norm cancels the one only with the other. fla's plain PyTorch forms are loaded from their files: the package imports
Triton, and transformers would take its kernels.
"""
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

sys.modules["fla"] = None

BATCH, HEADS, LENGTH, DIM, WIDTH = 2, 4, 70, 8, 12
TOKENS = (BATCH, LENGTH)
random = torch.Generator().manual_seed(7)


def normal(*shape, std=1.0):
    return torch.randn(*shape, generator=random, dtype=torch.float64) * std


def flat(x):
    """[B, H, L, D] to [B, L, H D]."""
    return x.transpose(1, 2).flatten(2)


def heads(x):
    """[B, L, H D] to [B, H, L, D]."""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def by_token(*tensors):
    """[B, H, L, ...] to [B, L, H, ...], as fla has it."""
    return [x.transpose(1, 2) for x in tensors]


class Given(nn.Module):
    """In a map's place: what `make` makes of the layer's input."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def given(x):
    return Given(lambda _: x)


def fill(parameter, values):
    with torch.no_grad():
        parameter.copy_(values.reshape(parameter.shape))


def pass_on(convolution):
    """A causal convolution of each channel that gives what it gets."""
    weight = torch.zeros_like(convolution.weight)
    weight[..., -1] = 1
    fill(convolution.weight, weight)
    if convolution.bias is not None:
        fill(convolution.bias, torch.zeros_like(convolution.bias))


def naive(operation, function):
    """A function of fla/ops/OPERATION/naive.py."""
    path = importlib.metadata.distribution("fla-core").locate_file(f"fla/ops/{operation}/naive.py")
    spec = importlib.util.spec_from_file_location(f"naive_{operation}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


class Comparison:
    """One mechanism against one reference.

    name, options: of attnlab's mechanism
    package, what: where the reference is from
    call:          what attnlab is asked with, beside tensors
    source:        whether tokens [B, L, WIDTH] are made that gates and the like are made of
    """

    def __init__(self, name, package, what, *, source=False, call=None, dims=(DIM, DIM), length=LENGTH, sizes=None,
                 **options):
        self.facts = {"name": name, "package": package, "what": what,
                      "call": {"causal": True} if call is None else call, "options": options,
                      "sizes": sizes or {}, "dims": dims, "version": importlib.metadata.version(package)}
        self.inputs = {"queries": normal(BATCH, HEADS, length, dims[0]), "keys": normal(BATCH, HEADS, length, dims[0]),
                       "values": normal(BATCH, HEADS, length, dims[1])}
        if source:
            self.inputs["source"] = normal(BATCH, length, WIDTH)
        self.parameters = {}
        for x in self.inputs.values():
            x.requires_grad_()
        self.q, self.k, self.v = (self.inputs[key] for key in ("queries", "keys", "values"))
        self.x = self.inputs.get("source")

    def parameter(self, name, *shape, std=0.3, mean=0.0):
        self.parameters[name] = mean + normal(*shape, std=std)
        return self.parameters[name]

    def save(self, folder, output):
        """@param output  [B, H, L, Dv]"""
        upstream = normal(*output.shape)
        leaves = list(self.inputs.values())
        gradients = torch.autograd.grad((output.double() * upstream).sum(), leaves, allow_unused=True)
        tensors = {"output": output, "upstream": upstream}
        for (name, x), gradient in zip(self.inputs.items(), gradients):
            tensors[f"input:{name}"] = x
            tensors[f"gradient:{name}"] = torch.zeros_like(x) if gradient is None else gradient
        tensors.update({f"parameter:{name}": x for name, x in self.parameters.items()})
        file = f"{self.facts['name']}-{self.facts['package']}-{self.facts['what']}".replace("/", "_").replace(" ", "_")
        np.savez(folder / f"{file}.npz", facts=json.dumps(self.facts),
                 **{name: x.detach().double().numpy() for name, x in tensors.items()})
        print(file)


# x-transformers


def x_attention(comparison, causal=True, **options):
    from x_transformers.x_transformers import Attention

    module = Attention(WIDTH, dim_head=DIM, heads=HEADS, causal=causal, **options).double()
    for name, x in (("to_q", comparison.q), ("to_k", comparison.k), ("to_v", comparison.v)):
        setattr(module, name, given(flat(x)))
    module.to_out = nn.Identity()
    return module


def x_ask(comparison, module, **arguments):
    x = comparison.x if comparison.x is not None else torch.zeros(BATCH, comparison.q.shape[2], WIDTH).double()
    return heads(module(x, **arguments))


def x_transformers():
    package = "x-transformers"

    one = Comparison("standard", package, "Attention")
    yield one, x_ask(one, x_attention(one))
    one = Comparison("standard", package, "max_attend_past", call={"causal": True, "window": 6})
    yield one, x_ask(one, x_attention(one, max_attend_past=5))

    one = Comparison("selective", package, "selective")
    yield one, x_ask(one, x_attention(one, selective=True))
    one = Comparison("cog", package, "cog_signed")
    yield one, x_ask(one, x_attention(one, cog_signed=True))
    one = Comparison("soft_cap", package, "softclamp_logits", cap=1.5)
    yield one, x_ask(one, x_attention(one, softclamp_logits=True, logit_softclamp_value=1.5))
    one = Comparison("sigmoid", package, "sigmoid", bias="constant", constant=0)
    yield one, x_ask(one, x_attention(one, sigmoid=True))

    for power in (1, 2):
        one = Comparison("relu", package, f"custom_attn_fn relu^{power}", call={}, power=power)
        yield one, x_ask(one, x_attention(one, causal=False,
                                          custom_attn_fn=lambda logits, p=power: logits.relu()**p / LENGTH))

    one = Comparison("laser", package, "laser")
    # The package bounds values first by 15 tanh(v / 15); here far beyond all.
    yield one, x_ask(one, x_attention(one, laser=True, laser_softclamp_value=1e6))

    one = Comparison("sink", package, "head_learned_sink")
    module = x_attention(one, head_learned_sink=True)
    fill(module.attend.head_attn_sink, one.parameter("sink", HEADS, std=1))
    yield one, x_ask(one, module)

    one = Comparison("talking_heads", package, "pre_talking_heads, post_talking_heads")
    module = x_attention(one, pre_talking_heads=True, post_talking_heads=True)
    # The package adds the mixed logits to the logits.
    own = torch.eye(HEADS, dtype=torch.float64)
    fill(module.attend.pre_softmax_talking_heads.weight, one.parameter("logit_mix", HEADS, HEADS) - own)
    fill(module.attend.post_softmax_talking_heads.weight, one.parameter("weight_mix", HEADS, HEADS))
    yield one, x_ask(one, module)

    one = Comparison("cope", package, "use_cope", max_positions=6)
    module = x_attention(one, use_cope=True, cope_max_pos=6)
    fill(module.attend.cope.pos_emb, one.parameter("table", 6, DIM, std=1))
    yield one, x_ask(one, module)

    one = Comparison("qknorm", package, "qk_norm_dim_scale", call={})
    module = x_attention(one, causal=False, qk_norm=True, qk_norm_dim_scale=True)
    for name, scale in (("query.scale", module.qk_norm_q_scale), ("key.scale", module.qk_norm_k_scale)):
        # The package also divides by sqrt(D).
        fill(scale, one.parameter(name, HEADS, DIM, mean=2) * DIM**0.25)
    yield one, x_ask(one, module)

    one = Comparison("forgetting", package, "data_dependent_alibi", source=True)
    module = x_attention(one, data_dependent_alibi=True)
    gates = module.data_dependent_alibi.to_forget_gates[0]
    fill(gates.weight, one.parameter("gate.map.weight", HEADS, WIDTH))
    fill(gates.bias, one.parameter("gate.map.bias", HEADS))
    yield one, x_ask(one, module)

    for headwise, gate, channels in ((False, "element", DIM), (True, "head", 1)):
        one = Comparison("gated", package, f"gate_values {gate}", source=True, gate=gate)
        module = x_attention(one, gate_values=True, gate_values_headwise=headwise)
        weight = one.parameter("gate.map.weight", HEADS * channels, WIDTH)
        maps = [part for part in module.to_v_gate.modules() if isinstance(part, nn.Linear)]
        fill(maps[0].weight, weight)
        yield one, x_ask(one, module)

    one = Comparison("value_residual", package, "value_residual", sizes={"layer": 1, "layers": 2})
    first = one.inputs["first_values"] = normal(BATCH, HEADS, LENGTH, DIM).requires_grad_()
    yield one, x_ask(one, x_attention(one), value_residual=first)

    from x_transformers.x_transformers import AlibiPositionalBias, RotaryEmbedding

    one = Comparison("alibi", package, "AlibiPositionalBias")
    yield one, x_ask(one, x_attention(one), rel_pos=AlibiPositionalBias(HEADS).double())
    one = Comparison("rotary", package, "RotaryEmbedding")
    yield one, x_ask(one, x_attention(one), rotary_pos_emb=RotaryEmbedding(DIM).double().forward_from_seq_len(LENGTH))


# fla


def softplus_decay(one, channels):
    """log decays and what they are made of, as Gated DeltaNet and Mamba-2 have them: [B, H, L, channels]."""
    rates = one.parameter("decay.log_rates", HEADS)
    bias = one.parameter("decay.bias", HEADS * channels, mean=-2)
    return rates, bias


def decays(rates, steps):
    return -rates.exp().view(-1, 1, 1) * steps


def direction(x):
    x = functional.silu(x)
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def rms(x, weight, eps):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


def fla():
    package, eps = "fla-core", 1e-5 / DIM

    one = Comparison("forgetting", package, "naive_forgetting_attn", source=True)
    gates = functional.linear(one.x, one.parameter("gate.map.weight", HEADS, WIDTH),
                              one.parameter("gate.map.bias", HEADS))
    run = naive("forgetting_attn", "naive_forgetting_attn")
    yield one, run(*by_token(one.q, one.k, one.v), functional.logsigmoid(gates)).transpose(1, 2)

    one = Comparison("based", package, "naive_parallel_based")
    maps = [one.parameter(name, HEADS * 16, DIM).view(HEADS, 16, DIM) for name in ("query_map", "key_map")]
    mapped = [x @ by.transpose(1, 2) for x, by in zip((one.q, one.k), maps)]
    yield one, naive("based", "naive_parallel_based")(*mapped, one.v)

    one = Comparison("linear", package, "naive_recurrent_linear_attn")
    mapped = [functional.elu(x) + 1 for x in (one.q, one.k)]
    run = naive("linear_attn", "naive_recurrent_linear_attn")
    yield one, run(*by_token(*mapped, one.v), normalize=True)[0].transpose(1, 2)

    one = Comparison("retention", package, "naive_retention", source=True)
    gate = heads(functional.linear(one.x, one.parameter("gate.map.weight", HEADS * DIM, WIDTH)))
    seen = naive("retention", "naive_retention")(one.q, one.k, one.v)
    yield one, functional.silu(gate) * functional.layer_norm(seen, (DIM,), eps=eps)

    one = Comparison("gated_linear_attention", package, "naive_recurrent_gla", source=True)
    lower = functional.linear(one.x, one.parameter("decay.down.weight", 16, WIDTH))
    logs = heads(functional.linear(lower, one.parameter("decay.up.map.weight", HEADS * DIM, 16),
                                   one.parameter("decay.up.map.bias", HEADS * DIM)))
    gate = heads(functional.linear(one.x, one.parameter("gate.map.weight", HEADS * DIM, WIDTH),
                                   one.parameter("gate.map.bias", HEADS * DIM)))
    run = naive("gla", "naive_recurrent_gla")
    seen = run(*by_token(one.q, one.k, one.v, functional.logsigmoid(logs) / 16))[0].transpose(1, 2)
    yield one, functional.silu(gate) * functional.layer_norm(seen, (DIM,), eps=eps)

    one = Comparison("delta_net", package, "delta_rule_recurrence", source=True)
    beta = heads(functional.linear(one.x, one.parameter("beta.map.weight", HEADS, WIDTH))).squeeze(-1).sigmoid()
    seen = naive("delta_rule", "delta_rule_recurrence")(direction(one.q), direction(one.k), one.v, beta)[0]
    yield one, rms(seen, one.parameter("norm.weight", DIM, mean=1), eps)

    one = Comparison("gated_delta_net", package, "naive_recurrent_gated_delta_rule", source=True)
    rates, bias = softplus_decay(one, 1)
    steps = heads(functional.linear(one.x, one.parameter("step.map.weight", HEADS, WIDTH), bias))
    beta = heads(functional.linear(one.x, one.parameter("beta.map.weight", HEADS, WIDTH))).sigmoid()
    gate = heads(functional.linear(one.x, one.parameter("gate.map.weight", HEADS * DIM, WIDTH)))
    run = naive("gated_delta_rule", "naive_recurrent_gated_delta_rule")
    logs = decays(rates, functional.softplus(steps))
    seen = run(*by_token(direction(one.q), direction(one.k), functional.silu(one.v), beta.squeeze(-1),
                         logs.squeeze(-1)))[0].transpose(1, 2)
    yield one, rms(seen, one.parameter("norm.weight", DIM, mean=1), eps) * functional.silu(gate)

    one = Comparison("kimi_delta", package, "naive_recurrent_kda", source=True)
    rates, bias = softplus_decay(one, DIM)
    lower = functional.linear(one.x, one.parameter("step.down.weight", DIM, WIDTH))
    steps = heads(functional.linear(lower, one.parameter("step.up.map.weight", HEADS * DIM, DIM), bias))
    beta = heads(functional.linear(one.x, one.parameter("beta.map.weight", HEADS, WIDTH))).sigmoid()
    lower = functional.linear(one.x, one.parameter("gate.down.weight", DIM, WIDTH))
    gate = heads(functional.linear(lower, one.parameter("gate.up.map.weight", HEADS * DIM, DIM),
                                   one.parameter("gate.up.map.bias", HEADS * DIM)))
    logs = decays(rates, functional.softplus(steps))
    seen = naive("kda", "naive_recurrent_kda")(*by_token(direction(one.q), direction(one.k), functional.silu(one.v),
                                                         logs, beta.squeeze(-1)))[0].transpose(1, 2)
    yield one, rms(seen, one.parameter("norm.weight", DIM, mean=1), eps) * gate.sigmoid()

    one = Comparison("path", package, "naive_path_attn", source=True, rank=5)
    lower = functional.linear(one.x, one.parameter("direction.down.weight", 5, WIDTH))
    along = heads(functional.linear(lower, one.parameter("direction.up.map.weight", HEADS * DIM, 5)))
    along = along * (along.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
    strength = 2 * functional.linear(one.x, one.parameter("strength.map.weight", HEADS, WIDTH),
                                     one.parameter("strength.map.bias", HEADS)).sigmoid()
    yield one, naive("path_attn", "naive_path_attn")(*by_token(one.q, one.k, one.v, along), strength,
                                                     torch.zeros(BATCH, LENGTH, HEADS).double(),
                                                     scale=DIM**-0.5).transpose(1, 2)


# transformers


def hide_later(length=LENGTH):
    return torch.full((length, length), float("-inf"), dtype=torch.float64).triu(1)


def not_turned(length=LENGTH, dim=DIM):
    """cos and sin of rotary positions that turn nothing."""
    return torch.ones(BATCH, length, dim).double(), torch.zeros(BATCH, length, dim).double()


def transformers():
    package = "transformers"
    sizes = dict(hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=HEADS, head_dim=DIM,
                 num_hidden_layers=2)

    def injected(module, one):
        module = module.double().eval()
        for name, x in (("q_proj", one.q), ("k_proj", one.k), ("v_proj", one.v)):
            setattr(module, name, given(flat(x)))
        module.o_proj = nn.Identity()
        return module

    def tokens(one):
        return one.x if one.x is not None else torch.zeros(*TOKENS, WIDTH).double()

    from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
    one = Comparison("sink", package, "GptOssAttention")
    config = gpt_oss.GptOssConfig(**sizes, layer_types=["full_attention"] * 2, attn_implementation="eager")
    module = injected(gpt_oss.GptOssAttention(config, 0), one)
    fill(module.sinks, one.parameter("sink", HEADS, std=1))
    yield one, heads(module(tokens(one), not_turned(dim=DIM // 2), hide_later())[0])

    from transformers.models.gemma2 import modeling_gemma2 as gemma2
    one = Comparison("soft_cap", package, "Gemma2Attention", cap=1.5)
    config = gemma2.Gemma2Config(**sizes, attn_logit_softcapping=1.5, query_pre_attn_scalar=DIM,
                                 layer_types=["full_attention"] * 2, attn_implementation="eager")
    module = injected(gemma2.Gemma2Attention(config, 0), one)
    yield one, heads(module(tokens(one), not_turned(), hide_later())[0])

    from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next
    one = Comparison("gated", package, "Qwen3NextAttention", source=True, gate="element")
    config = qwen3_next.Qwen3NextConfig(**sizes, linear_num_key_heads=HEADS, linear_num_value_heads=HEADS,
                                        linear_key_head_dim=DIM, linear_value_head_dim=DIM,
                                        rms_norm_eps=1e-5 / DIM, layer_types=["full_attention", "linear_attention"],
                                        attn_implementation="eager")
    module = injected(qwen3_next.Qwen3NextAttention(config, 0), one)
    weight = one.parameter("gate.map.weight", HEADS * DIM, WIDTH)
    # Of each head its query's channels, then its gate's.
    module.q_proj = Given(lambda x: torch.cat([one.q.transpose(1, 2), functional.linear(x, weight).unflatten(
        -1, (HEADS, DIM))], -1).flatten(2))
    module.q_norm = module.k_norm = nn.Identity()
    yield one, heads(module(tokens(one), not_turned(), hide_later())[0])

    one = Comparison("gated_delta_net", package, "Qwen3NextGatedDeltaNet", source=True)
    module = qwen3_next.Qwen3NextGatedDeltaNet(config, 1).double().eval()
    pass_on(module.conv1d)
    rates, bias = softplus_decay(one, 1)
    fill(module.A_log, rates), fill(module.dt_bias, bias)
    fill(module.norm.weight, one.parameter("norm.weight", DIM, mean=1))
    step, beta, gate = (one.parameter(f"{name}.map.weight", HEADS * channels, WIDTH)
                        for name, channels in (("step", 1), ("beta", 1), ("gate", DIM)))
    module.in_proj_qkvz = Given(lambda x: torch.cat([*by_token(one.q, one.k, one.v), functional.linear(
        x, gate).unflatten(-1, (HEADS, DIM))], -1).flatten(2))
    module.in_proj_ba = Given(lambda x: torch.stack([functional.linear(x, beta), functional.linear(x, step)],
                                                    -1).flatten(2))
    module.out_proj = nn.Identity()
    yield one, heads(module(tokens(one)))

    from transformers.models.kimi_linear import modeling_kimi_linear as kimi
    one = Comparison("kimi_delta", package, "KimiLinearDeltaAttention", source=True)
    config = kimi.KimiLinearConfig(hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=2,
                                   linear_num_heads=HEADS, linear_head_dim=DIM, rms_norm_eps=1e-5 / DIM,
                                   layer_types=["linear_attention"] * 2)
    module = injected(kimi.KimiLinearDeltaAttention(config, 0), one)
    pass_on(module.conv1d)
    rates, bias = softplus_decay(one, DIM)
    fill(module.forget_gate.A_log, rates), fill(module.forget_gate.dt_bias, bias)
    for map_, name, shape in ((module.forget_gate.f_a_proj, "step.down.weight", (DIM, WIDTH)),
                              (module.forget_gate.f_b_proj, "step.up.map.weight", (HEADS * DIM, DIM)),
                              (module.b_proj, "beta.map.weight", (HEADS, WIDTH)),
                              (module.g_a_proj, "gate.down.weight", (DIM, WIDTH)),
                              (module.g_b_proj, "gate.up.map.weight", (HEADS * DIM, DIM))):
        fill(map_.weight, one.parameter(name, *shape))
    one.parameter("gate.up.map.bias", HEADS * DIM, std=0)  # the package has none
    fill(module.o_norm.weight, one.parameter("norm.weight", DIM, mean=1))
    yield one, heads(module(tokens(one)))

    from transformers.models.zamba2 import modeling_zamba2 as zamba2
    one = Comparison("mamba2", package, "Zamba2MambaMixer", source=True)
    # Zamba2's norm is of a group's channels, and so here of a head's; Mamba-2's own is of all.
    config = zamba2.Zamba2Config(hidden_size=HEADS * DIM, mamba_expand=1, n_mamba_heads=HEADS, mamba_ngroups=HEADS,
                                 mamba_d_state=DIM, chunk_size=16, time_step_min=0.0, num_attention_heads=HEADS,
                                 num_hidden_layers=2, layers_block_type=["linear_attention"] * 2)
    module = zamba2.Zamba2MambaMixer(config, 0).double().eval()
    pass_on(module.conv1d)
    rates, bias = softplus_decay(one, 1)
    fill(module.A_log, rates), fill(module.dt_bias, bias)
    fill(module.D, one.parameter("skip", HEADS, mean=1))
    fill(module.norm.weight, one.parameter("norm.weight", DIM, mean=1).repeat(HEADS))
    step, gate = (one.parameter(f"{name}.map.weight", HEADS * channels, WIDTH)
                  for name, channels in (("step", 1), ("gate", DIM)))
    module.in_proj = Given(lambda x: torch.cat([functional.linear(x, gate), flat(one.v), flat(one.k), flat(one.q),
                                                functional.linear(x, step)], -1))
    module.out_proj = nn.Identity()
    yield one, heads(module(tokens(one)))

    from transformers.models.diffllama import modeling_diffllama as diffllama
    wide = 2 * DIM
    one = Comparison("differential", package, "DiffLlamaAttention", dims=(wide, wide), sizes={"layer": 1, "layers": 2})
    config = diffllama.DiffLlamaConfig(hidden_size=WIDTH, num_attention_heads=2 * HEADS, num_hidden_layers=2,
                                       num_key_value_heads=2 * HEADS, head_dim=DIM, rms_norm_eps=1e-5,
                                       attn_implementation="eager")
    module = diffllama.DiffLlamaAttention(config, 1).double().eval()
    # All first halves of heads come before all second ones.
    halves = [flat(torch.cat(x.chunk(2, -1), 1)) for x in (one.q, one.k, one.v)]
    for name, x in zip(("q_proj", "k_proj", "v_proj"), halves):
        setattr(module, name, given(x))
    module.o_proj = nn.Identity()
    for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
        fill(getattr(module, name), one.parameter(name, DIM))
    one.parameter("norm.weight", wide, mean=1, std=0)  # the package's norm has no factors
    yield one, heads(module(tokens(one), not_turned(), hide_later())[0])

    from transformers.models.swinv2 import modeling_swinv2 as swinv2
    one = Comparison("qknorm_hs", package, "Swinv2SelfAttention", call={}, length=49)
    config = swinv2.Swinv2Config(attention_probs_dropout_prob=0.0)
    module = swinv2.Swinv2SelfAttention(config, HEADS * DIM, HEADS, 7).double().eval()
    for name, x in (("query", one.q), ("key", one.k), ("value", one.v)):
        setattr(module, name, given(flat(x)))
    fill(module.logit_scale, one.parameter("scale.log_scale", HEADS, mean=2.3))
    fill(module.continuous_position_bias_mlp[-1].weight, torch.zeros(HEADS, 512))  # the same bias everywhere
    yield one, heads(module(torch.zeros(BATCH, 49, HEADS * DIM).double())[0])

    from transformers.models.roformer import modeling_roformer as roformer
    one = Comparison("rotary", package, "RoFormerSelfAttention", call={})
    config = roformer.RoFormerConfig(hidden_size=HEADS * DIM, num_attention_heads=HEADS,
                                     attention_probs_dropout_prob=0.0, rotary_value=False, attn_implementation="eager")
    module = roformer.RoFormerSelfAttention(config).double().eval()
    for name, x in (("query", one.q), ("key", one.k), ("value", one.v)):
        setattr(module, name, given(flat(x)))
    places = roformer.RoFormerSinusoidalPositionalEmbedding(LENGTH, DIM).create_weight().double()[None, None]
    yield one, heads(module(torch.zeros(*TOKENS, HEADS * DIM).double(), sinusoidal_pos=places)[0])

    from transformers.models.xlnet import modeling_xlnet as xlnet
    one = Comparison("standard", package, "XLNetRelativeAttention", call={})
    module = xlnet.XLNetRelativeAttention(xlnet.XLNetConfig(d_model=HEADS * DIM, n_head=HEADS)).double().eval()
    # Keys of the distances LENGTH - 1 down to 1 - LENGTH; the package has one before them, which no pair uses.
    along = one.inputs["relative"] = normal(HEADS, 2 * LENGTH - 1, DIM).requires_grad_()
    for name, bias in (("content_bias", module.r_w_bias), ("position_bias", module.r_r_bias)):
        one.inputs[name] = normal(HEADS, DIM)
        fill(bias, one.inputs[name])
        one.inputs[name] = bias
    distances = functional.pad(along, (0, 0, 1, 0)).transpose(0, 1).unsqueeze(1).expand(-1, BATCH, -1, -1)
    seen = module.rel_attn_core(*(x.permute(2, 0, 1, 3) for x in (one.q, one.k, one.v)), distances)
    yield one, seen.permute(1, 2, 0, 3)


# entmax and timm


def others():
    import entmax

    one = Comparison("entmax", "entmax", "entmax15", adaptive=False)
    logits = one.q @ one.k.transpose(-1, -2) * DIM**-0.5 + hide_later().clamp_min(-1e6)
    yield one, entmax.entmax15(logits, dim=-1) @ one.v

    import timm.layers as timm

    def injected(module, one):
        module = module.double().eval()
        module.qkv = given(torch.stack(by_token(one.q, one.k, one.v), 2).flatten(2))
        module.proj = nn.Identity()
        return module

    one = Comparison("qknorm_ln", "timm", "Attention qk_norm", call={}, eps=1e-5)
    module = injected(timm.Attention(HEADS * DIM, num_heads=HEADS, qk_norm=True, norm_layer=nn.LayerNorm), one)
    for name, norm in (("query.norm", module.q_norm), ("key.norm", module.k_norm)):
        fill(norm.weight, one.parameter(f"{name}.weight", DIM, mean=1))
        fill(norm.bias, one.parameter(f"{name}.bias", DIM))
    yield one, heads(module(torch.zeros(*TOKENS, HEADS * DIM).double()))

    one = Comparison("differential", "timm", "DiffAttention", call={}, sizes={"layer": 3, "layers": 4})
    module = injected(timm.DiffAttention(HEADS * DIM, num_heads=HEADS, depth=3), one)
    for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
        fill(getattr(module, name), one.parameter(name, DIM // 2))
    fill(module.sub_norm.weight, one.parameter("norm.weight", DIM, mean=1))
    yield one, heads(module(torch.zeros(*TOKENS, HEADS * DIM).double()))


# Whole models: how attnlab's layers share and place keys (attention.projection, attention.positions)

MODEL = {"dim": 128, "depth": 2, "heads": 4, "context": 160}  # beyond T5's farthest bucket


def x_model(folder, what, attention, text, **options):
    """x-transformers' decoder as attnlab's transformer_lm has it; its weights, and its loss on a text of bytes."""
    from safetensors.torch import save_file
    from x_transformers import Decoder, TransformerWrapper

    dim, depth, count, context = MODEL.values()
    width, plain = dim // count, not any(key.endswith(("pos_bias", "pos_emb")) for key in options)
    layers = Decoder(dim=dim, depth=depth, heads=count, attn_dim_head=width, ff_no_bias=True, **options)
    model = TransformerWrapper(num_tokens=256, max_seq_len=context, attn_layers=layers, tie_embedding=True,
                               tie_embedding_scale=1.0, use_abs_pos_emb=plain).eval()
    for parameter in model.parameters():
        fill(parameter, normal(*parameter.shape, std=1.5 / max(parameter.shape[-1], 4)**0.5).float())
    own = {"table.weight": model.token_emb.emb.weight}
    if plain:
        own["positions"] = model.pos_emb.emb.weight * model.pos_emb.scale
    norms = [block[0][0] for block in layers.layers] + [layers.final_norm]
    names = [f"layer{i // 2}.{'mlp' if i % 2 else 'attention'}_norm" for i in range(2 * depth)] + ["norm"]
    for name, norm in zip(names, norms):
        fill(norm.gamma, normal(dim, std=0.2).float())
        own[f"{name}.weight"] = norm.gamma + 1  # as the package has it
    for i in range(depth):
        attend, mlp = layers.layers[2 * i][1], layers.layers[2 * i + 1][1]
        layer = f"layer{i}."
        q, output = attend.to_q.weight, attend.to_out.weight
        shared = attend.kv_heads
        if 1 < shared < count:
            # The package gives query h the keys h modulo their number; elsewhere neighbours share them.
            order = torch.arange(count).view(-1, shared).t().flatten()
            q = q.view(count, width, dim)[order].flatten(0, 1)
            output = output.view(dim, count, width)[:, order].flatten(1)
        maps = {"query": q, "key": attend.to_k.weight, "value": attend.to_v.weight}
        if attend.to_latent_kv is not None:
            maps["latent"] = attend.to_latent_kv.weight
        elif shared == count:
            maps = {"qkv": torch.cat(list(maps.values()))}
        for name, weight in (maps | {"output": output}).items():
            own[f"{layer}attention.{name}.weight"] = weight
        own[f"{layer}mlp.in.weight"], own[f"{layer}mlp.out.weight"] = mlp.ff[0][0].weight, mlp.ff[-1].weight
        if options.get("rel_pos_bias"):
            table = layers.rel_pos.relative_attention_bias.weight * layers.rel_pos.scale
            own[f"{layer}attention.positions.table"] = table.t().flatten()
    save_file({name: x.detach().contiguous().clone() for name, x in own.items()}, folder / f"{what}.safetensors")
    tokens = torch.tensor(list(text))
    windows, targets = tokens[:-1].view(-1, context), tokens[1:].view(-1, context)
    with torch.no_grad():
        loss = functional.cross_entropy(model(windows).double().flatten(0, 1), targets.flatten())
    facts = {"package": "x-transformers", "version": importlib.metadata.version("x-transformers"), "what": what,
             "attention": attention, "positions": "learned" if plain else "none", "model": MODEL, "nll": loss.item()}
    (folder / f"{what}.json").write_text(json.dumps(facts))
    print(what)


def models(folder):
    text = torch.randint(32, 127, (20 * MODEL["context"] + 1,), generator=random).tolist()
    (folder / "text.txt").write_bytes(bytes(text))
    standard = {"use": "standard"}
    for what, attention, options in (
            ("heads of keys: all", {}, {}),
            ("heads of keys: 2", {"projection": {"key_heads": 2}}, {"attn_kv_heads": 2}),
            ("heads of keys: 1", {"projection": {"key_heads": 1}}, {"attn_one_kv_head": True}),
            ("latent keys and values", {"projection": {"rank": 24}},
             {"attn_use_latent_kv": True, "attn_dim_latent_kv": 24}),
            ("rotary", {"positions": "rotary"}, {"rotary_pos_emb": True, "rotary_emb_dim": 32}),
            ("alibi", {"positions": "alibi"}, {"alibi_pos_bias": True}),
            ("t5", {"positions": "t5"}, {"rel_pos_bias": True})):
        x_model(folder, what.replace(": ", "_").replace(" ", "_"), standard | attention, text, **options)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for source in (x_transformers, fla, transformers, others):
        for comparison, output in source():
            comparison.save(folder, output)
    models(folder)


main()

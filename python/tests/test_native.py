"""attnlab.Attention by what a user of PyTorch does; run as test_attnlab.py says."""
import copy
import io
import json
import math
import os
import pathlib
import pickle
import shutil
import struct
import tempfile
import unittest
from unittest import mock

import attnlab
from attnlab import native
from attnlab.program import ask

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"attnlab.Attention needs PyTorch: {error}") from None
if not (native._folder() / "built_with.json").is_file():
    raise unittest.SkipTest(f"attnlab.Attention was not built: {native._folder()}")

BATCH, HEADS, LENGTH, DIM = 2, 2, 6, 8
WIDTH = 12  # of what queries, keys and values are projected from


def tensors(length=LENGTH, dtype=torch.float32, batch=BATCH, dim=DIM, seed=1):
    """Queries, keys and values that take gradients."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, HEADS, length, dim, generator=generator).to(dtype).requires_grad_()
            for _ in range(3)]


def looped(q, k, v, sees):
    """softmax(Q K^T / sqrt(D)) V by loops over Python's floats; sees(b, i, j): whether i may see j."""
    q, k, v = (x.tolist() for x in (q, k, v))
    out = []
    for b, heads in enumerate(q):
        out.append([])
        for h, rows in enumerate(heads):
            out[b].append([])
            for i, query in enumerate(rows):
                logits = {j: sum(x * y for x, y in zip(query, key)) / math.sqrt(len(query))
                          for j, key in enumerate(k[b][h]) if sees(b, i, j)}
                weights = {j: math.exp(logit) for j, logit in logits.items()}
                total = sum(weights.values())
                out[b][h].append([sum(weight * v[b][h][j][c] for j, weight in weights.items()) / total
                                  if weights else 0.0 for c in range(len(v[b][h][0]))])
    return torch.tensor(out, dtype=torch.float64)


def twin(q, k, v):
    """Standard attention in PyTorch's own operations."""
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def close(a, b, tolerance):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


class Numbers(unittest.TestCase):
    def test_standard_is_softmax_attention_by_loops(self):
        q, k, v = tensors(dtype=torch.float64)
        attention = attnlab.Attention("standard", HEADS, DIM)
        close(attention(q, k, v), looped(q, k, v, lambda b, i, j: True), 1e-12)

    def test_true_in_a_mask_may_be_seen(self):
        q, k, v = tensors(dtype=torch.float64)
        key_valid = torch.ones(BATCH, LENGTH, dtype=torch.bool)
        key_valid[1, 4:] = False
        pairs = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
        pairs[2] = False
        out = attnlab.Attention("standard", HEADS, DIM)(q, k, v, causal=True, key_valid=key_valid,
                                                        pairs=pairs, window=3)
        close(out, looped(q, k, v, lambda b, i, j: j <= i and i - j < 3 and i != 2
                          and (b == 0 or j < 4)), 1e-12)
        self.assertEqual(float(out[:, :, 2].abs().max()), 0)

    def test_float32_equals_a_twin_in_pytorch(self):
        q, k, v = tensors(length=197, dim=64)
        close(attnlab.Attention("standard", HEADS, 64)(q, k, v), twin(q, k, v), 1e-6)

    def test_gradients_are_a_twins(self):
        q, k, v = tensors(dtype=torch.float64)
        grad = torch.randn(BATCH, HEADS, LENGTH, DIM, dtype=torch.float64)
        attention = attnlab.Attention("standard", HEADS, DIM)
        ours = torch.autograd.grad(attention(q, k, v), (q, k, v), grad)
        theirs = torch.autograd.grad(twin(q, k, v), (q, k, v), grad)
        for own, other in zip(ours, theirs):
            close(own, other, 1e-10)

    def test_gradients_and_their_gradients_are_difference_quotients(self):
        for name in ("standard", "quest"):
            with self.subTest(name):
                attention = attnlab.Attention(name, HEADS, 3)
                inputs = tensors(length=3, dtype=torch.float64, batch=1, dim=3)
                self.assertTrue(torch.autograd.gradcheck(attention, inputs))
                self.assertTrue(torch.autograd.gradgradcheck(attention, inputs))

    def test_a_parameters_gradient_is_a_difference_quotient(self):
        attention = attnlab.Attention("qknorm", HEADS, DIM).double()
        q, k, v = tensors(dtype=torch.float64)
        attention(q, k, v).square().sum().backward()
        scale, step = attention.query.scale, 1e-6
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                scale.view(-1)[3] += sign * step
                losses.append(float(attention(q, k, v).square().sum()))
                scale.view(-1)[3] -= sign * step
        close(float(scale.grad.view(-1)[3]), (losses[0] - losses[1]) / (2 * step), 1e-6)

    def test_sequences_end_to_end_are_the_sequences_one_by_one(self):
        q, k, v = tensors(batch=1)
        attention = attnlab.Attention("standard", HEADS, DIM)
        offsets = torch.tensor([0, 2, 6])
        whole = attention(q, k, v, query_offsets=offsets, key_offsets=offsets)
        parts = [attention(*(x[:, :, a:b] for x in (q, k, v))) for a, b in ((0, 2), (2, 6))]
        close(whole, torch.cat(parts, 2), 1e-6)

    def test_relative_positions_are_those_of_transformer_xl(self):
        q, k, v = tensors(dtype=torch.float64)
        r = torch.randn(HEADS, 2 * LENGTH - 1, DIM, dtype=torch.float64)
        u, w = torch.randn(2, HEADS, DIM, dtype=torch.float64)
        far = torch.arange(LENGTH - 1, -1, -1).view(-1, 1) + torch.arange(LENGTH)  # of distance i - j
        logits = (q + u.view(HEADS, 1, DIM)) @ k.transpose(-2, -1)
        logits = logits + ((q + w.view(HEADS, 1, DIM)).unsqueeze(-2) * r[:, far]).sum(-1)
        attention = attnlab.Attention("standard", HEADS, DIM)
        close(attention(q, k, v, relative=(r, u, w)), (logits / math.sqrt(DIM)).softmax(-1) @ v, 1e-10)
        with self.assertRaisesRegex(attnlab.ShapeError, "relative must be"):
            attention(q, k, v, relative=r)

    def test_layers_of_one_pass_share_their_state(self):
        first, second = (attnlab.Attention("elliptical", HEADS, DIM, layer=i, layers=2) for i in (0, 1))
        q, k, v = tensors()
        alone = second(q, k, v)
        state = attnlab.ForwardState()
        first(k, q, v * torch.arange(1.0, DIM + 1), state=state)
        self.assertGreater(float((second(q, k, v, state=state) - alone).abs().max()), 1e-4)

    def test_recorded_weights_give_the_output(self):
        q, k, v = tensors()
        out, found = attnlab.Attention("standard", HEADS, DIM)(q, k, v, causal=True,
                                                               record=["weights", "logits", "norms"])
        close(found["weights"] @ v, out, 1e-5)
        self.assertEqual(float(found["logits"][0, 0, 0, 1]), -math.inf)
        close(found["query_norms"], q.detach().norm(dim=-1), 1e-5)

    def test_numbers_of_the_program(self):
        """The same parameters and tensors through `attnlab attention apply`."""
        attention = attnlab.Attention("qknorm", HEADS, DIM, seed=3, init=2.0)
        with torch.no_grad():
            attention.query.scale.uniform_(0.5, 2)
        q, k, v = (x.detach() for x in tensors())
        with tempfile.TemporaryDirectory() as folder:
            given, made = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
            write_safetensors(given, {"q": q, "k": k, "v": v,
                                      "parameters.query.scale": attention.query.scale.detach()})
            ask(["attention", "apply", "--use", "qknorm", "--option", "init=2", "--seed", "3", "--causal",
                 "--in", given, "--out", made])
            close(attention(q, k, v, causal=True).detach(), read_safetensors(made)["out"], 1e-6)

    def test_a_seed_begins_as_a_run_with_it(self):
        """gated's weights are drawn: those of `attnlab attention apply --seed 5`."""
        widths = {f"{part}_width": WIDTH for part in ("query", "key", "value")}
        attention = attnlab.Attention("gated", HEADS, DIM, seed=5, **widths)
        again = attnlab.Attention("gated", HEADS, DIM, seed=5, **widths)
        for own, other in zip(attention.parameters(), again.parameters()):
            self.assertTrue(torch.equal(own, other))
        q, k, v = (x.detach() for x in tensors())
        source = torch.randn(BATCH, LENGTH, WIDTH)
        sources = {f"{part}_source": source for part in ("query", "key", "value")}
        with tempfile.TemporaryDirectory() as folder:
            given, made = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
            write_safetensors(given, {"q": q, "k": k, "v": v, **sources})
            ask(["attention", "apply", "--use", "gated", "--seed", "5", "--in", given, "--out", made])
            close(attention(q, k, v, **sources).detach(), read_safetensors(made)["out"], 1e-6)

    def test_without_a_seed_pytorchs_generator_decides(self):
        def drawn():
            torch.manual_seed(11)
            attention = attnlab.Attention("gated", HEADS, DIM, query_width=WIDTH, key_width=WIDTH,
                                          value_width=WIDTH)
            return torch.cat([x.detach().reshape(-1) for x in attention.parameters()]), torch.rand(1)
        (own, after), (other, _) = drawn(), drawn()
        self.assertTrue(torch.equal(own, other))
        torch.manual_seed(11)
        self.assertFalse(torch.equal(after, torch.rand(1)))  # a number was drawn


def write_safetensors(path, named):
    header, body = {}, b""
    for name, tensor in named.items():
        values = tensor.reshape(-1).tolist()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(body), len(body) + 4 * len(values)]}
        body += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(path):
    whole = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    named = {}
    for name, entry in json.loads(whole[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        values = struct.unpack(f"<{(end - begin) // 4}f", whole[begin:end])
        named[name] = torch.tensor(values).view(entry["shape"])
    return named


class Modules(unittest.TestCase):
    def setUp(self):
        self.inputs = tensors()
        self.attention = attnlab.Attention("qknorm", HEADS, DIM)

    def output(self, attention=None):
        return (attention or self.attention)(*self.inputs).detach()

    def test_a_state_dict_goes_round(self):
        with torch.no_grad():
            self.attention.query.scale.uniform_(0.5, 2)
        state = self.attention.state_dict()
        self.assertEqual(sorted(state), ["key.scale", "query.scale"])
        other = attnlab.Attention("qknorm", HEADS, DIM)
        self.assertGreater(float((self.output(other) - self.output()).abs().max()), 1e-4)
        stream = io.BytesIO()
        torch.save(state, stream)
        stream.seek(0)
        other.load_state_dict(torch.load(stream))
        self.assertTrue(torch.equal(self.output(other), self.output()))

    def test_a_step_of_the_optimiser_changes_what_cpp_computes(self):
        before, scale = self.output(), self.attention.key.scale
        start = scale.detach().clone()
        optimiser = torch.optim.SGD(self.attention.parameters(), lr=0.1)
        self.attention(*self.inputs).square().sum().backward()
        optimiser.step()
        self.attention.after_step(0, 0.1)
        close(scale.detach(), start - 0.1 * scale.grad, 1e-6)
        self.assertGreater(float((self.output() - before).abs().max()), 1e-5)
        norm = [x / x.norm(dim=-1, keepdim=True) for x in self.inputs[:2]]
        scaled = [x * part.scale.view(HEADS, 1, DIM)
                  for x, part in zip(norm, (self.attention.query, self.attention.key))]
        weights = (scaled[0] @ scaled[1].transpose(-2, -1)).softmax(-1)
        close(self.output(), (weights @ self.inputs[2]).detach(), 1e-5)

    def test_a_model_has_its_parameters(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), self.attention)
        self.assertIn("1.query.scale", dict(model.named_parameters()))
        self.assertIn("qknorm", repr(model))

    def test_dtypes_move_cpp_too(self):
        expected = self.output()
        self.attention.double()
        self.assertEqual(self.attention.query.scale.dtype, torch.float64)
        self.inputs = [x.detach().double() for x in self.inputs]
        close(self.output().float(), expected, 1e-5)

    def test_parameters_of_16_bits_stay_in_float32_rounded(self):
        with torch.no_grad():
            self.attention.query.scale.fill_(1.001)
        self.attention.to(torch.bfloat16)
        scale = self.attention.query.scale.detach()
        self.assertEqual(scale.dtype, torch.float32)
        self.assertEqual(float(scale.view(-1)[0]), 1.0)
        self.inputs = [x.detach().bfloat16() for x in self.inputs]
        self.assertEqual(self.output().dtype, torch.bfloat16)

    def test_autocast_changes_nothing(self):
        expected = self.output()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertTrue(torch.equal(self.output(), expected))

    def test_dropout_is_for_training(self):
        attention = attnlab.Attention("standard", HEADS, DIM, dropout=0.5)
        model = torch.nn.ModuleList([attention])
        torch.manual_seed(0)
        dropped = self.output(attention)
        self.assertGreater(float((dropped - twin(*self.inputs)).abs().max()), 1e-3)
        torch.manual_seed(0)
        self.assertTrue(torch.equal(self.output(attention), dropped))
        model.eval()
        close(self.output(attention), twin(*self.inputs).detach(), 1e-6)

    def test_copies_are_equal_and_apart(self):
        with torch.no_grad():
            self.attention.query.scale.uniform_(0.5, 2)
        self.attention.key.scale.requires_grad_(False)
        self.attention.eval()
        for made in (copy.deepcopy(self.attention), pickle.loads(pickle.dumps(self.attention)),
                     copy.copy(self.attention)):
            self.assertTrue(torch.equal(self.output(made), self.output()))
            self.assertEqual((made.training, made.key.scale.requires_grad), (False, False))
            with torch.no_grad():
                made.query.scale.mul_(3)
            self.assertFalse(torch.equal(self.output(made), self.output()))

    def test_another_tensor_in_a_parameters_place_is_refused(self):
        self.attention.query.scale = torch.nn.Parameter(torch.ones(HEADS * DIM))
        with self.assertRaisesRegex(attnlab.AttnlabError, "'scale'.*copy_"):
            self.output()

    def test_another_device_is_refused(self):
        with self.assertRaisesRegex(attnlab.AttnlabError, "not on meta"):
            self.attention.to("meta")

    @unittest.skipUnless(hasattr(torch, "compiler"), "this PyTorch has no torch.compiler")
    def test_compiled_models_run_it_as_it_is(self):
        class Model(torch.nn.Module):
            def __init__(self, attention):
                super().__init__()
                self.attention = attention

            def forward(self, q, k, v):
                return self.attention(q * 2, k, v) + 1

        model = Model(self.attention)
        close(torch.compile(model, backend="eager")(*self.inputs), model(*self.inputs), 1e-6)


class Refusals(unittest.TestCase):
    """Each names place and remedy."""

    def refused(self, kind, *parts, arguments=("standard", HEADS, DIM), **options):
        with self.assertRaises(kind) as raised:
            attnlab.Attention(*arguments, **options)
        for part in parts:
            self.assertIn(part, str(raised.exception))

    def called(self, kind, *parts, name="standard", change=None, **options):
        q, k, v = tensors()
        q, k, v = change(q, k, v) if change else (q, k, v)
        with self.assertRaises(kind) as raised:
            attnlab.Attention(name, HEADS, DIM)(q, k, v, **options)
        for part in parts:
            self.assertIn(part, str(raised.exception))

    def test_an_unknown_name_with_the_line_that_has_it(self):
        self.refused(attnlab.ConfigError, "test_native.py:", "did you mean 'standard'",
                     arguments=("standart", HEADS, DIM))

    def test_an_unknown_option(self):
        self.refused(attnlab.ConfigError, "test_native.py:", "epss", "did you mean 'eps'",
                     arguments=("quest", HEADS, DIM), epss=1e-6)

    def test_an_option_out_of_its_range(self):
        self.refused(attnlab.ConfigError, "test_native.py:", "eps", "-1", arguments=("quest", HEADS, DIM),
                     eps=-1)

    def test_an_option_of_another_type(self):
        for value in ("small", [1e-6], {"a": 1}, object()):
            with self.subTest(value):
                self.refused(attnlab.ConfigError, "test_native.py:", "eps", "expected",
                             arguments=("quest", HEADS, DIM), eps=value)

    def test_an_attention_of_python_is_used_as_it_is(self):
        for name in ("mine.py", "python", "attnlab/python"):
            self.refused(attnlab.ConfigError, "test_native.py:", "import its class",
                         arguments=(name, HEADS, DIM))

    def test_sizes_that_cannot_be(self):
        self.refused(attnlab.ConfigError, "heads", "1 or more", arguments=("standard", 0, DIM))
        self.refused(attnlab.ConfigError, "head_dim", "an int", arguments=("standard", HEADS, 8.5))
        self.refused(attnlab.ConfigError, "layer", "less than layers", layer=2, layers=2)
        self.refused(attnlab.ConfigError, "dropout", "[0, 1)", dropout=1.0)
        self.refused(attnlab.ConfigError, "seed", "0 or more", seed=-1)

    def test_a_source_that_is_not_announced(self):
        self.refused(attnlab.ConfigError, "query_width", arguments=("gated", HEADS, DIM))

    def test_a_wrong_shape_dtype_or_device(self):
        self.called(attnlab.ShapeError, "queries must be", change=lambda q, k, v: (q[:, :1], k, v))
        self.called(attnlab.ShapeError, "keys must be", change=lambda q, k, v: (q, k.double(), v))
        self.called(attnlab.ShapeError, "values must be", "torch.Tensor",
                    change=lambda q, k, v: (q, k, v.tolist()))
        self.called(attnlab.ShapeError, "CPU or a CUDA device",
                    change=lambda q, k, v: (q.to("meta"), k, v))
        self.called(attnlab.ShapeError, "bias", "dense tensor",
                    bias=torch.zeros(LENGTH, LENGTH, device="meta"))
        self.called(attnlab.ShapeError, "key_valid", "bool", key_valid=torch.ones(BATCH, LENGTH))

    def test_an_input_that_it_does_not_honour(self):
        self.called(attnlab.TraitError, "causal", "take an attention",
                    name="doubly_stochastic", causal=True)

    def test_an_unknown_record(self):
        self.called(attnlab.ConfigError, "record", "weights", record=["weight"])

    def test_another_torch(self):
        same = ("/a/libtorch_cpu.so", "2.7.1+cpu")
        self.assertFalse(native.other_torch("2.7.1", "/b/libtorch_cpu.so", same[1], same[0]))
        self.assertTrue(native.other_torch("2.7.0", "/b/libtorch_cpu.so", same[1], same[0]))
        self.assertTrue(native.other_torch("2.7.1", "/b/libtorch_cpu.so.2.7", same[1], same[0]))
        self.assertFalse(native.other_torch("1.13.0", "/a/libtorch_cpu.so", "1.13.0a0", same[0]))

    def test_a_build_for_another_python_or_torch_is_not_loaded(self):
        record = json.loads((native._folder() / "built_with.json").read_text())
        for change, text in (({"python": "cpython-27"}, "cpython-27"),
                             ({"torch": "9.9.9", "library": "/nowhere/libtorch_cpu.so.9"}, "9.9.9")):
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "built_with.json").write_text(json.dumps({**record, **change}))
                with mock.patch.object(native, "_folder", lambda: pathlib.Path(folder)):
                    with self.assertRaisesRegex(attnlab.AttnlabError, f"{text}.*build attnlab"):
                        native.load.__wrapped__()


class Plugins(unittest.TestCase):
    def test_list_has_a_summary_for_each_name(self):
        found = attnlab.list()
        self.assertTrue({"standard", "quest"} <= set(found))
        self.assertIn("softmax", found["quest"])

    def test_every_attention_attends_once(self):
        for name in attnlab.list():
            if name != "python":  # test_an_attention_of_python_is_used_as_it_is
                with self.subTest(name):
                    self.attend(name)

    def attend(self, name):
        widths = {f"{part}_width": WIDTH for part in ("query", "key", "value")}
        attention = attnlab.Attention(name, HEADS, DIM, **widths)
        traits = attention.traits
        self.assertEqual(traits, attnlab.describe(name)["traits"])
        q, k, v = tensors()
        given = {"causal": traits["ordered"]}
        if traits["sources"]:
            source = torch.randn(BATCH, LENGTH, WIDTH)
            with self.assertRaisesRegex(attnlab.ShapeError, "_source"):
                attention(q, k, v, **given)
            given.update({f"{part}_source": source for part in ("query", "key", "value")})
        out = attention(q, k, v, **given)
        self.assertEqual(out.shape, q.shape)
        out.sum().backward()
        for tensor in (out, q.grad, k.grad, v.grad):
            self.assertTrue(bool(torch.isfinite(tensor).all()))
        if not traits["causal"]:
            with self.assertRaisesRegex(attnlab.TraitError, "causal"):
                attention(q, k, v, **{**given, "causal": True})
        if traits["ordered"]:
            with self.assertRaisesRegex(attnlab.TraitError, "ordered"):
                attention(q, k, v, **{**given, "causal": False})

    def test_plugins_of_others_are_looked_for_at_each_call(self):
        path = pathlib.Path(attnlab.describe("quest")["path"])
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(path, folder)
            with mock.patch.dict(os.environ, {"ATTNLAB_PLUGIN_PATH": folder}):
                with self.assertRaisesRegex(attnlab.ConfigError, "more than one file"):
                    attnlab.Attention("quest", HEADS, DIM)
        attnlab.Attention("quest", HEADS, DIM)


if __name__ == "__main__":
    unittest.main()

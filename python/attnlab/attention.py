"""An attention of attnlab inside PyTorch: the C++ plugin in this process, as a torch.nn.Module."""
from __future__ import annotations

import functools
import operator
import sys
from typing import Any, Callable, Dict, List, MutableMapping, Optional, Sequence, Tuple, Type

import torch

from attnlab import native
from attnlab.errors import AttnlabError, ConfigError, ShapeError

ForwardState = native.load().ForwardState


def _caller() -> Tuple[str, int]:
    """File and line of whoever asked: the first outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "attnlab":
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        file, line = _caller()
        raise ConfigError(f"{file}:{line}: {name}: expected an int, found {value!r}") from None


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps torch.compile (PyTorch 2.1 and newer) out of a function: its graph breaks there, and the function
    runs as it is. Only where a compiler is loaded: loading it takes as long as PyTorch."""
    outside: List[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" not in sys.modules or not hasattr(torch, "compiler"):
            return function(*args, **kwargs)
        if not outside:
            try:
                outside.append(torch.compiler.disable(function, reason="attnlab computes it in C++"))
            except TypeError:  # before PyTorch 2.8 no reason is shown
                outside.append(torch.compiler.disable(function))
        return outside[0](*args, **kwargs)

    return call


def _rebuild(kind: Type["Attention"], arguments: Dict[str, Any]) -> "Attention":
    module = kind.__new__(kind)
    Attention.__init__(module, **arguments)
    return module


class Attention(torch.nn.Module):
    """An attention of one layer, computed by attnlab's C++ as in a run.

    name:       as `attnlab.list()` has it: "quest", "lab/name"; also one of configs/attention
    heads, head_dim, value_dim: H, D, Dv; Dv is D unless given
    layer, layers: its index among the layers of one stack, from 0 on, and their number
    dropout:    probability of dropping a weight in training mode
    seed:       begins with the parameters of a run with this seed; None: PyTorch's generator decides
    query_width, key_width, value_width: channels of what queries, keys and values are projected from,
                for attentions with the trait "sources"
    options:    as `attnlab.describe(name)` has them

    Parameters and buffers are the plugin's own tensors: optimisers, load_state_dict, .to() and .cuda()
    act on what C++ computes with. Copy values into them: other tensors in their place are refused. As in a
    run, parameters that are rounded to 16 bits are kept in float32. A copy (copy.deepcopy, pickle) has the
    same values, and no hooks. torch.compile breaks its graph here and runs the call as it is.
    Raises ConfigError, PluginError.
    """

    def __init__(self, name: str, heads: int, head_dim: int, value_dim: Optional[int] = None, *,
                 layer: int = 0, layers: int = 1, dropout: float = 0.0, seed: Optional[int] = None,
                 query_width: int = 0, key_width: int = 0, value_width: int = 0, **options: Any):
        super().__init__()
        sizes = {"heads": heads, "head_dim": head_dim,
                 "value_dim": 0 if value_dim is None else value_dim, "layer": layer,
                 "layers": layers, "query_width": query_width, "key_width": key_width,
                 "value_width": value_width}
        sizes = {key: _integer(key, value) for key, value in sizes.items()}
        if seed is None:
            seed = int(torch.randint(2**62, (), dtype=torch.int64, device="cpu"))
        file, line = _caller()
        if name.endswith(".py") or name.split("/")[-1] == "python":
            raise ConfigError(f"{file}:{line}: '{name}' stands for an attention in a Python file: here, "
                              "import its class and use that")
        if _integer("seed", seed) < 0:
            raise ConfigError(f"{file}:{line}: seed: expected 0 or more, found {seed}")
        self._arguments: Dict[str, Any] = {"name": name, **sizes, "dropout": float(dropout)}
        self._options = options
        self._native = native.load().Attention(name, options, file, line, **sizes,
                                               dropout=float(dropout), seed=seed)
        #: Where this module has each of the plugin's tensors, and the tensor.
        self._shared: List[Tuple[MutableMapping[str, Any], str, torch.Tensor]] = []
        for path, tensor in self._native.parameters():
            if type(tensor) is torch.Tensor:
                tensor.__class__ = torch.nn.Parameter  # the same tensor, in the class that modules take
            self._share(path, tensor)
        for path, tensor in self._native.buffers():
            self._share(path, tensor)

    def _share(self, path: str, tensor: torch.Tensor) -> None:
        *parts, key = path.split(".")
        holder: torch.nn.Module = self
        for part in parts:
            if part not in holder._modules:
                holder.add_module(part, torch.nn.Module())
            holder = holder._modules[part]  # type: ignore[assignment]
        if isinstance(tensor, torch.nn.Parameter):
            holder.register_parameter(key, tensor)
            self._shared.append((holder._parameters, key, tensor))
        else:
            holder.register_buffer(key, tensor)
            self._shared.append((holder._buffers, key, tensor))

    @property
    def traits(self) -> Dict[str, bool]:
        """What it honours and needs, by the names in docs/contracts/attention.md."""
        return self._native.traits()

    @_eager
    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, *,
                causal: bool = False, window: int = 0, key_valid: Optional[torch.Tensor] = None,
                query_valid: Optional[torch.Tensor] = None, pairs: Optional[torch.Tensor] = None,
                query_offsets: Optional[torch.Tensor] = None,
                key_offsets: Optional[torch.Tensor] = None, bias: Optional[torch.Tensor] = None,
                relative: Optional[Sequence[Optional[torch.Tensor]]] = None,
                query_positions: Optional[torch.Tensor] = None,
                key_positions: Optional[torch.Tensor] = None,
                query_source: Optional[torch.Tensor] = None,
                key_source: Optional[torch.Tensor] = None,
                value_source: Optional[torch.Tensor] = None,
                values_from_elsewhere: bool = False, state: Any = None,
                record: Sequence[str] = (), attached: bool = False) -> Any:
        """Attends. Masks are bool and positive: true means "may be seen", as in PyTorch's
        scaled_dot_product_attention and against torch.nn.MultiheadAttention. All of them hold together.

        queries:  [B, H, Lq, D] floating point; keys: [B, H, Lk, D]; values: [B, H, Lk, Dv]
        causal:   query i sees keys j <= i + Lk - Lq: the last query stands at the last key
        window:   w > 0: query i sees keys with |i + Lk - Lq - j| < w; 0: no limit
        key_valid, query_valid: [B, Lk] and [B, Lq] bool, true = a real token, false = padding
        pairs:    bool, broadcastable to [B, H, Lq, Lk], true = may see
        query_offsets, key_offsets: [T + 1] int64 on the CPU: T sequences lie end to end, B is 1
        bias:     finite, of the queries' dtype, broadcastable to [B, H, Lq, Lk]; added to scaled logits
        relative: as in Transformer-XL (attnlab.python.RelativePositions): keys [H, Lq + Lk - 1, D] for
                  distances Lk - 1 down to 1 - Lq, content_bias and position_bias [H, D] or None
        query_positions, key_positions: [B or 1, L, P]; without: 0, 1, 2, ...
        query_source, key_source, value_source: [B, L, width], what queries, keys and values were
                  projected from; for attentions with the trait "sources" alone, which need all three
        values_from_elsewhere: slot j of the keys and slot j of the values are different tokens
        state:    what the layers of one stack share during one pass: one `ForwardState()` for each pass
        record:   of "weights", "logits", "norms", "entropy", "bias": what to return beside the output
        attached: records keep the graph

        Returns [B, H, Lq, Dv], of the values' dtype; a query that sees no key gives zeros. With `record`
        a pair: the output, and a dictionary of "weights" and "logits" [B, H, Lq, Lk] (hidden pairs have
        the logit -inf), "query_norms", "entropy" [B, H, Lq], "key_norms" [B, H, Lk], "bias"; those that
        the mechanism has.
        Raises ShapeError, and TraitError for an input that the attention does not honour.
        """
        for members, key, tensor in self._shared:
            if members.get(key) is not tensor:
                raise AttnlabError(
                    f"attention '{self._arguments['name']}': '{key}' is another tensor than the "
                    "plugin's, which C++ computes with; copy values into the plugin's: with "
                    "torch.no_grad(): parameter.copy_(values)")
        if relative is not None and (isinstance(relative, torch.Tensor) or len(relative) != 3):
            raise ShapeError("attention input: relative must be (keys, content_bias, position_bias), of "
                             "which the last two may be None")
        distances, content, place = (None, None, None) if relative is None else relative
        tensors = {"queries": queries, "keys": keys, "values": values, "key_valid": key_valid,
                   "query_valid": query_valid, "pairs": pairs, "query_offsets": query_offsets,
                   "key_offsets": key_offsets, "bias": bias, "relative.keys": distances,
                   "relative.content_bias": content, "relative.position_bias": place,
                   "query_positions": query_positions, "key_positions": key_positions,
                   "query_source": query_source, "key_source": key_source,
                   "value_source": value_source}
        return self._native.forward(tensors, causal, window, values_from_elsewhere, state,
                                    list(record), attached)

    def after_step(self, step: int, learning_rate: float) -> None:
        """Call it after each step of the optimiser, as runs do: some attentions then bound or count.

        step: from 0 on
        """
        self._native.after_step(step, learning_rate)

    def train(self, mode: bool = True) -> "Attention":
        super().train(mode)
        self._native.train(mode)
        return self

    def extra_repr(self) -> str:
        sizes = {key: value for key, value in self._arguments.items() if key != "name" and value}
        given = [f"{key}={value!r}" for key, value in {**sizes, **self._options}.items()]
        return ", ".join([repr(self._arguments["name"]), *given])

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], *args: Any,
               **kwargs: Any) -> "Attention":
        def moved(tensor: torch.Tensor) -> torch.Tensor:
            new = fn(tensor)
            if new.device.type not in ("cpu", "cuda"):
                raise AttnlabError(f"attnlab computes on the CPU or a CUDA device, not on {new.device}")
            return new.float() if new.dtype in (torch.float16, torch.bfloat16) else new

        super()._apply(moved, *args, **kwargs)
        for members, key, tensor in self._shared:
            new = members[key]
            if new is tensor:
                continue
            tensor.data = new.data  # buffers are made anew, and parameters where PyTorch is told so
            tensor.grad = new.grad
            members[key] = tensor
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        state = {"tensors": [(tensor.detach(), tensor.requires_grad) for _, _, tensor in self._shared],
                 "training": self.training}
        return _rebuild, (type(self), {**self._arguments, **self._options, "seed": 0}), state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        for (_, _, tensor), (values, learned) in zip(self._shared, state["tensors"]):
            tensor.data = values.clone()
            tensor.requires_grad_(learned)
        self.train(state["training"])

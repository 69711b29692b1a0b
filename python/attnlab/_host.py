"""The program's side of attentions, models and datasets in Python: it builds the class, calls it, and says
what is wrong.

Called from C++ (plugins/python/). Every function answers (value, None) or (None, what is wrong).
"""
import functools
import hashlib
import importlib.util
import linecache
import os
import random
import sys
import threading
import traceback

import torch

from attnlab import _plugin_file
from attnlab.python import RelativePositions

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
# Calls of a layer in training, and in evaluation, after which all is looked at.
_LOOKED_AT = 2


class Refused(Exception):
    """Found wrong here; its text is whole."""


def answered(function):
    """Gives exceptions back as text."""
    @functools.wraps(function)
    def answer(*arguments):
        try:
            return function(*arguments), None
        except Refused as refused:
            return None, str(refused)
        except BaseException as error:  # SystemExit, too
            return None, told(error)
    return answer


def told(error):
    """What was raised, with file and line of the user's own code, and what led there."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno or 0}:{error.offset or 0}: syntax error: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith((_OWN, _TORCH, "<frozen"))]
    if isinstance(error, SystemExit):
        text = f"ends the program (exit code {error.code}); raise an error instead"
    elif isinstance(error, ModuleNotFoundError):
        text = (f"{error}; install the package '{(error.name or '').split('.')[0]}' for "
                f"{sys.executable}")
    else:
        text = f"{type(error).__name__}: {error}"
    if not frames:
        return text
    last = frames[-1]
    line = (last.line or linecache.getline(last.filename, last.lineno)).strip()
    text = f"{last.filename}:{last.lineno}: {text} (in {last.name}: {line})"
    ways = [f"{frame.filename}:{frame.lineno}" for frame in frames[:-1]]
    return text + (f"; called from {', '.join(reversed(ways))}" if ways else "")


def _name_errors_of_backward():
    """What a torch.autograd.Function raises in its backward comes to C++ as a text: with a place."""
    inner = torch.autograd.function.BackwardCFunction.apply

    def apply(self, *gradients):
        try:
            return inner(self, *gradients)
        except BaseException as error:
            raise RuntimeError(told(error)) from None
    torch.autograd.function.BackwardCFunction.apply = apply


_name_errors_of_backward()


# ---- files

_loaded = {}


def _forget(files, folder):
    """Modules of the names that files of the folder have: an earlier state, or another folder's."""
    for file in files[1:]:
        name = os.path.splitext(os.path.relpath(file, folder).split(os.sep)[0])[0]
        where = os.path.abspath(getattr(sys.modules.get(name), "__file__", None) or os.__file__)
        if where.startswith(_STANDARD):
            continue
        for known in [one for one in sys.modules if one == name or one.startswith(name + ".")]:
            del sys.modules[known]


def _load(path):
    """The module of a file, which runs once for each state of it."""
    folder = os.path.dirname(path)
    files = _plugin_file.Imports(path).files
    states = [(file, os.stat(file).st_mtime_ns, os.stat(file).st_size) for file in files]
    name = "attnlab_file_" + hashlib.sha256(repr(states).encode()).hexdigest()[:16]
    if name in _loaded:
        return _loaded[name]
    _forget(files, folder)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _loaded[name] = module
    return module


@answered
def read(path, name, kind):
    """What the text of the file says (attnlab._plugin_file)."""
    try:
        return _plugin_file.plugin_file(path, name, kind)
    except _plugin_file.Wrong as wrong:
        raise Refused("{}:{}:{}: {}".format(*wrong.where)) from None


# ---- what must stay as it is

_OF_MODULES = ("in training, draw with torch, which attnlab seeds before each step, or call "
               "attnlab.python.dropout")
_OF_DATA = ("draw from a generator of your own, as numpy.random.default_rng([seed, index]) with `seed` "
            "from the constructor, or from `random` of __getitem__(self, index, random)")


class Surroundings:
    """Random numbers and threads of the process, which are not a part's own."""

    def __init__(self, torch_too, remedy=_OF_MODULES):
        self.torch_too = torch_too
        self.remedy = remedy
        self.before = self.now()

    def now(self):
        state = {"Python's random numbers (random)": random.getstate(),
                 "torch's seed": torch.initial_seed(),
                 "the number of threads": threading.active_count()}
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            kept = numpy.get_state()
            state["numpy's random numbers (numpy.random)"] = (kept[1].tobytes(), kept[2:])
        if self.torch_too:
            state["torch's random numbers"] = torch.get_rng_state().numpy().tobytes()
        return state

    def check(self, where, what):
        after = self.now()
        for name, value in self.before.items():
            if after[name] != value:
                raise Refused(f"{where}: {what} changes {name}: runs would not be repeatable; "
                              + self.remedy)


def _is_kept(value):
    """Whether a value is, or holds, a tensor."""
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, dict):
        return any(isinstance(one, torch.Tensor) for one in value.values())
    return isinstance(value, (list, tuple)) and any(isinstance(one, torch.Tensor) for one in value)


class Hosted:
    """An attention's module, of one layer."""

    keep_it = "keep it in `state`, or make a buffer of it in __init__ (register_buffer)"

    def __init__(self, path, said, module):
        self.module = module
        self.path = path
        self.where = f"{path}:{said['forward_line']}"
        self.losses_line = said.get("losses_line") or said["forward_line"]
        self.name = said["class"]
        # What `forward` keeps for `losses` is let go after each call.
        self.adds_losses = said["kind"] == "attention" and hasattr(module, "losses")
        self.calls = {True: 0, False: 0}
        self.trained = True
        self.note()

    def note(self):
        """What there is to be found unchanged after a call."""
        self.parts = []
        for part in self.module.modules():
            held = [(table, name, tensor) for table in (part._parameters, part._buffers)
                    for name, tensor in table.items()]
            sizes = [(table, len(table)) for table in (part._parameters, part._buffers,
                                                       part._modules)]
            own = {name for name, value in vars(part).items() if _is_kept(value)}
            self.parts.append((part, held, sizes, own))
        if self.adds_losses:
            self.attributes = [(part, dict(vars(part))) for part in self.module.modules()]

    def let_go(self):
        """Puts attributes back in whose place a call has put tensors."""
        for part, before in self.attributes:
            for name in [name for name, value in vars(part).items() if _is_kept(value)]:
                if name not in before:
                    delattr(part, name)
                elif vars(part)[name] is not before[name]:
                    setattr(part, name, before[name])

    def check_held(self):
        """Parameters and buffers are the tensors that the program trains and saves."""
        for part, held, sizes, _ in self.parts:
            for table, name, tensor in held:
                if table.get(name) is not tensor:
                    raise Refused(f"{self.where}: forward puts another tensor in the place of "
                                  f"'{name}', which attnlab trains and saves; change it in place, as "
                                  f"self.{name}.copy_(...)")
            for table, size in sizes:
                if len(table) != size:
                    raise Refused(f"{self.where}: forward adds or removes parameters, buffers or "
                                  "modules; make them in __init__")

    def check_kept(self):
        """Nothing of a batch stays for the next."""
        for part, _, _, own in self.parts:
            for name, value in vars(part).items():
                if name not in own and _is_kept(value):
                    raise Refused(f"{self.where}: forward keeps a tensor in self.{name} from one "
                                  f"batch to the next; {self.keep_it}")

    def tensors(self):
        """Of parameters, then of buffers: (names from the top, tensor, whether it is a parameter)."""
        return ([(name.split("."), tensor, True)
                 for name, tensor in self.module.named_parameters()]
                + [(name.split("."), tensor, False)
                   for name, tensor in self.module.named_buffers()])

    @answered
    def train(self, on):
        self.trained = on
        self.module.train(on)

    @answered
    def after_step(self, step, learning_rate):
        self.module.after_step(step, learning_rate)
        self.check_held()

    def forward(self, *arguments, **named):
        """What the module gives; whether all is left as it was."""
        closely = self.calls[self.trained] < _LOOKED_AT
        if closely:
            self.calls[self.trained] += 1
            before = Surroundings(torch_too=not self.trained)
        out = self.module(*arguments, **named)
        if closely:
            before.check(self.where, f"forward of {self.name}")
        self.check_held()
        if closely and not self.adds_losses:
            self.check_kept()
        return out

    @answered
    def call(self, q, k, v, given, asks_losses):
        """The output, weights and logits where forward gives them, else None, and losses by name."""
        if not self.adds_losses:
            return (*self.parts_of(self.forward(q, k, v, **given)), {})
        try:
            parts = self.parts_of(self.forward(q, k, v, **given))
            losses = self.losses() if asks_losses else {}
        finally:
            self.let_go()
        self.check_kept()
        return (*parts, losses)

    def parts_of(self, out):
        """The output, weights and logits; None where there are none."""
        parts = out if isinstance(out, tuple) else (out,)
        if 1 <= len(parts) <= 3 and isinstance(parts[0], torch.Tensor) and all(
                one is None or isinstance(one, torch.Tensor) for one in parts):
            return (*parts, None, None)[:3]
        raise Refused(f"{self.where}: forward of {self.name} returned {_kind_of(out)}; expected the "
                      "output, or (output, weights), or (output, weights, logits)")

    def losses(self):
        """What the class adds to the loss, by name."""
        where = f"{self.path}:{self.losses_line}"
        said = self.module.losses()
        if not isinstance(said, dict) or not all(isinstance(name, str) for name in said):
            raise Refused(f"{where}: losses of {self.name} returned {_kind_of(said)}; expected a "
                          "dictionary of scalars by name, as {'entropy': entropy.mean()}")
        for name, value in said.items():
            if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
                found = (f"{list(value.shape)} {_dtype(value)}" if isinstance(value, torch.Tensor)
                         else type(value).__name__)
                raise Refused(f"{where}: losses of {self.name}: '{name}' is {found}; expected a tensor "
                              "of one floating-point number, as .mean() gives it")
        return said


def _kind_of(value):
    if isinstance(value, tuple):
        return "(" + ", ".join(type(one).__name__ for one in value) + ")"
    return type(value).__name__


def _typed(options, said):
    """Options as the constructor wants them: 1 of a float is 1.0."""
    schema = [one for option in said["options"] for one in option.get("options", [])]
    for option in schema:
        if option["type"] == "float" and option["name"] in options:
            value = options[option["name"]]
            options[option["name"]] = ([float(one) for one in value] if isinstance(value, list)
                                       else float(value))
    return options


def _class(path, said):
    """The class, and where it stands."""
    return (getattr(_load(path), said["class"], None),
            f"{path}:{said['place'][0]}:{said['place'][1]}")


def _module(path, said, options, given):
    """The class with its options, and of `given` what its constructor asks for by name."""
    made, where = _class(path, said)
    if not isinstance(made, type) or not issubclass(made, torch.nn.Module):
        raise Refused(f"{where}: {said['class']} is not a torch.nn.Module; derive it from that")
    before = Surroundings(torch_too=False)
    module = made(**{name: given[name] for name in said["constructor"]}, **_typed(options, said))
    before.check(where, f"the constructor of {said['class']}")
    for name, tensor in module.named_parameters():
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise Refused(f"{where}: parameter '{name}' has no shape before the first batch (a lazy "
                          "module); give the shape in __init__")
        if not tensor.is_floating_point():
            raise Refused(f"{where}: parameter '{name}' is not a floating-point tensor; make a buffer of "
                          "it")
    return module


@answered
def build(path, said, options, shape):
    """An attention of one layer."""
    return Hosted(path, said, _module(path, said, options, shape))


def relative(keys, content_bias, position_bias):
    return RelativePositions(keys, content_bias, position_bias)


# ---- models

class HandedAttention(torch.nn.Module):
    """What a model's factory `attention` gives it: an attention of one layer, in C++ or in Python.

    It has its parameters and buffers, the very same tensors, once the model's constructor has ended.
    """

    def __init__(self, asked):
        super().__init__()
        self._asked = asked
        self._held = None  # _attnlab.Attention

    def fill(self, held):
        self._held = held
        for names, tensor, learned in held.tensors():
            holder = self
            for name in names[:-1]:
                if name not in holder._modules:
                    holder.add_module(name, torch.nn.Module())
                holder = holder._modules[name]
            if learned:
                if type(tensor) is torch.Tensor:
                    tensor.__class__ = torch.nn.Parameter  # the same tensor, in the class that modules take
                holder.register_parameter(names[-1], tensor)
            else:
                holder.register_buffer(names[-1], tensor)

    @property
    def traits(self):
        """Whether it honours or needs each, by the names in docs/contracts/attention.md: {"sources": True, ...}."""
        return self._filled().traits()

    def _filled(self):
        if self._held is None:
            raise RuntimeError("an attention is used in the model's constructor, before all are there; ask in "
                               "`forward`")
        return self._held

    def forward(self, q, k, v, *, causal=False, window=0, key_valid=None, query_valid=None, pairs=None,
                bias=None, relative=None, query_positions=None, key_positions=None, query_source=None,
                key_source=None, value_source=None, values_from_elsewhere=False):
        """q [B, H, Lq, D], k [B, H, Lk, D], v [B, H, Lk, Dv] to [B, H, Lq, Dv].

        Masks are bool, true = may be seen; all inputs as in docs/contracts/attention.md.
        """
        held = self._filled()
        keys, content_bias, position_bias = (None, None, None) if relative is None else relative
        given = {"queries": q, "keys": k, "values": v, "key_valid": key_valid,
                 "query_valid": query_valid, "pairs": pairs, "bias": bias, "relative.keys": keys,
                 "relative.content_bias": content_bias, "relative.position_bias": position_bias,
                 "query_positions": query_positions, "key_positions": key_positions,
                 "query_source": query_source, "key_source": key_source, "value_source": value_source}
        return held.call({name: one for name, one in given.items() if one is not None}, bool(causal),
                         int(window), bool(values_from_elsewhere))

    def train(self, mode=True):
        super().train(mode)
        if self._held is not None:
            self._held.train(mode)
        return self

    def __deepcopy__(self, memo):
        raise RuntimeError("an attention that attnlab handed out cannot be copied; call attention(...) once "
                           "for each layer")

    def extra_repr(self):
        return ", ".join(f"{name}={value}" for name, value in self._asked.items() if value)


class HostedModel(Hosted):
    """A model's module."""

    keep_it = "make a buffer of it in __init__ (register_buffer), or compute it anew"

    def __init__(self, path, said, module, handed):
        paths = {id(part): name for name, part in module.named_modules()}
        for one in handed:
            if id(one) not in paths:
                raise Refused(f"{path}:{said['place'][0]}:{said['place'][1]}: {said['class']} asked for an "
                              "attention that is in none of its modules, so it would not be trained; put "
                              "it into an attribute of a module, or into a torch.nn.ModuleList")
        self.handed = [(paths[id(one)], one) for one in handed]
        self.gives = said["gives"]
        super().__init__(path, said, module)

    def tensors(self):
        """Without those of the attentions, which the program registers itself."""
        below = tuple(path + "." for path, _ in self.handed)
        return [one for one in super().tensors() if not ".".join(one[0]).startswith(below)]

    def attentions(self):
        return [(path.split("."), one._held) for path, one in self.handed]

    @answered
    def decays(self, name, parameter):
        return bool(self.module.decays(name, parameter))

    @answered
    def call(self, fields):
        """Outputs by their names."""
        out = self.forward(**fields)
        if isinstance(out, torch.Tensor) and len(self.gives) == 1:
            out = {self.gives[0]: out}
        if not isinstance(out, dict) or not all(isinstance(one, torch.Tensor) for one in out.values()):
            raise Refused(f"{self.where}: forward of {self.name} returned {_kind_of(out)}; expected "
                          + ("a tensor, or " if len(self.gives) == 1 else "")
                          + "a dictionary of tensors by their names in `gives`")
        if set(out) != set(self.gives):
            names = ", ".join(map(str, out)) or "nothing"
            raise Refused(f"{self.where}: forward of {self.name} returned {names}; `gives` says "
                          + ", ".join(self.gives))
        return out


@answered
def build_model(path, said, options, given, make):
    """A model. make(dictionary of a shape): an attention of the program's, _attnlab.Attention."""
    handed = []

    def attention(heads, head_dim, value_dim=None, *, dropout=0.0, layer=None, layers=None,
                  query_width=0, key_width=0, value_width=0):
        """An attention of one layer, as a torch.nn.Module.

        heads, head_dim, value_dim: H, D, Dv; Dv is D unless given
        layer, layers: its index in its stack, and the stack's layers; by default in the order of calls
        """
        if (layer is None) != (layers is None):
            raise TypeError("attention(): layer and layers belong together: give both, or none")
        handed.append(HandedAttention(
            dict(heads=heads, head_dim=head_dim, value_dim=value_dim or head_dim, dropout=dropout,
                 layer=layer, layers=layers, query_width=query_width, key_width=key_width,
                 value_width=value_width)))
        return handed[-1]

    module = _module(path, said, options, dict(given, attention=attention))
    for index, one in enumerate(handed):
        if one._asked["layer"] is None:
            one._asked.update(layer=index, layers=len(handed))
        one.fill(make(one._asked))
    return HostedModel(path, said, module, handed)


# ---- datasets

SPLITS = ("train", "validation", "test")


def _dtype(tensor):
    return str(tensor.dtype).split(".")[-1]


class HostedDataset:
    """The three splits of a dataset, each an object of the class."""

    def __init__(self, path, said, options, seed):
        made, where = _class(path, said)
        if not isinstance(made, type):
            raise Refused(f"{where}: {said['class']} is not a class")
        self.where = f"{path}:{said['forward_line']}"
        self.name = said["class"]
        self.augments = said["augments"]
        given = {"seed": seed} if "seed" in said["constructor"] else {}
        before = Surroundings(torch_too=True, remedy=_OF_DATA)
        options = _typed(options, said)
        self.splits = {split: made(split=split, **given, **options) for split in SPLITS}
        before.check(where, f"the constructor of {self.name}")
        self.sizes = {split: len(held) for split, held in self.splits.items()}
        if self.sizes["train"] == 0:
            raise Refused(f"{where}: {self.name}: the train split has no examples")
        self.fields = self.described(said["fields"])
        self.example("train", 0, None)
        before.check(self.where, f"__getitem__ of {self.name}")

    def described(self, said):
        """(name, shape, dtype) of each field; what is not said is as in the first example."""
        # "series_valid" is made with the batch, where "series" is padded.
        self.made = {name for name in said
                     if name.endswith("_valid") and said.get(name[:-6], [None])[0] is not None}
        self.names = [name for name in said if name not in self.made]
        first, again = self.tensors("train", 0, None), self.tensors("train", 0, None)
        fields = []
        for name, (shape, dtype) in said.items():
            if name in self.made:
                padded = [size for size in said[name[:-6]][0] if size == -1]
                fields.append((name, padded, "bool"))
                continue
            tensor = first[name]
            if not torch.equal(tensor, again[name]):
                raise Refused(f"{self.place('train', 0)}: field '{name}' is another when it is asked for "
                              "again; an example depends on its index alone; " + _OF_DATA)
            if shape is None:
                shape = list(tensor.shape)
                if "@" in name and shape:
                    shape[0] = -1
            fields.append((name, shape, dtype or _dtype(tensor)))
        return fields

    def place(self, split, index):
        return f"{self.where}: {self.name}: example {index} of the {split} split"

    def tensors(self, split, index, random):
        """The fields as tensors of their own memory."""
        held = self.splits[split]
        arguments = (index,)
        if self.augments:
            if random is not None:
                import numpy
                random = numpy.random.default_rng(random)
            arguments = (index, random)
        try:
            given = held.__getitem__(*arguments)
        except BaseException as error:  # SystemExit, too
            raise Refused(f"{told(error)}; in example {index} of the {split} split of {self.name}") from None
        if not isinstance(given, dict):
            raise Refused(f"{self.place(split, index)}: __getitem__ returned {_kind_of(given)}; expected a "
                          "dictionary of arrays by the names in `fields`")
        if set(given) != set(self.names):
            raise Refused(f"{self.place(split, index)}: has {', '.join(map(str, given)) or 'nothing'}; "
                          f"`fields` says {', '.join(self.names)}")
        return {name: self.tensor(split, index, name, given[name]) for name in self.names}

    def tensor(self, split, index, name, value):
        if isinstance(value, torch.Tensor):
            if value.device.type == "cpu" and value.layout == torch.strided:
                return value.detach().clone(memory_format=torch.contiguous_format)
        elif isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float32}[type(value)]
            return torch.tensor(value, dtype=dtype)
        elif hasattr(value, "__array__"):
            import numpy
            try:
                return torch.from_numpy(numpy.array(value, order="C"))
            except TypeError as error:  # of texts, objects, uint16
                raise Refused(f"{self.place(split, index)}: field '{name}': {error}") from None
        raise Refused(f"{self.place(split, index)}: field '{name}' is {type(value).__name__}; expected a "
                      "numpy array, a torch tensor on the CPU, or a number")

    @answered
    def checked(self, split, index, random):
        return self.example(split, index, random)

    def example(self, split, index, random):
        """random: a seed, or None where nothing is augmented."""
        size = len(self.splits[split])
        if size != self.sizes[split]:
            raise Refused(f"{self.where}: {self.name}: the {split} split has {size} examples now, and had "
                          f"{self.sizes[split]} when it was opened; the data of a run stay as they are")
        tensors = self.tensors(split, index, random)
        for name, shape, dtype in self.fields:
            if name in self.made:
                continue
            tensor = tensors[name]
            if _dtype(tensor) == dtype and len(shape) == tensor.dim() and all(
                    wanted in (-1, size) for wanted, size in zip(shape, tensor.shape)):
                continue
            raise Refused(f"{self.place(split, index)}: field '{name}' is {list(tensor.shape)} "
                          f"{_dtype(tensor)}, expected {list(shape)} {dtype}; where a size differs between "
                          "examples, `fields` says -1")
        return tensors

    @answered
    def described_self(self):
        """What the class says of its data beside fields."""
        train = self.splits["train"]
        classes = getattr(train, "classes", 0)
        names = list(getattr(train, "class_names", ()) or ())
        if isinstance(classes, (list, tuple)):
            names, classes = list(classes), len(classes)
        prints = [str(held.fingerprint()) for held in self.splits.values()
                  if hasattr(held, "fingerprint")]
        return {"classes": int(classes), "class_names": [str(name) for name in names],
                "vocabulary": int(getattr(train, "vocabulary", 0)), "fingerprint": "\n".join(prints)}


@answered
def open_dataset(path, said, options, seed):
    return HostedDataset(path, said, options, seed)

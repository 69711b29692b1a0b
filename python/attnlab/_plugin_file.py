"""What a Python file says of its attention, model or dataset, read without running it.

The program runs this file, `python3 -I -B _plugin_file.py FILE CLASS KIND`, and reads one line of
JSON: a manifest (docs/plugin_format.md) with what else it asks, or {"error": [file, line, column,
text]}. CLASS may be empty: then the file must have one of the kind. KIND may be empty: then it is
that of the class, or of what the file has, attentions before models before datasets.
"""
import ast
import json
import math
import os
import re
import sys

# Parameters of a constructor that are given, by kind; every other one is an option.
GIVEN = {
    "attention": ("heads", "head_dim", "value_dim", "layer", "layers", "dropout",
                  "query_width", "key_width", "value_width"),
    "model": ("attention", "classes", "vocabulary", "shapes"),
    "dataset": ("split", "seed"),
}
WHO_GIVES = {"attention": "the model", "model": "attnlab", "dataset": "attnlab"}

# Whether a class is of a kind, in words.
IS_ONE = {
    "attention": "no class has a method forward(self, q, k, v, ...); an attention is a "
                 "torch.nn.Module with one",
    "model": "no class is a model: a torch.nn.Module that says what its forward returns, as "
             "gives = ['logits']",
    "dataset": "no class is a dataset: one with __len__(self) and __getitem__(self, index), without "
               "forward",
}

# Parameters of `forward` behind q, k and v, and the traits that each declares.
INPUTS = {
    "visible": ("causal", "window", "padding", "pair_mask"),
    "causal": ("causal",),
    "window": ("window",),
    "pairs": ("pair_mask",),
    "key_valid": ("padding",),
    "query_valid": (),
    "bias": ("bias",),
    "relative": ("relative_positions",),
    "values_from_elsewhere": (),
    "query_positions": ("places",),
    "key_positions": ("places",),
    "query_source": ("sources",),
    "key_source": ("sources",),
    "value_source": ("sources",),
    "state": (),
    "trace": (),
}

# Traits that no parameter shows: a class says `linear_cost = True` beside its methods.
SAID = {"different_lengths": True, "different_source": True, "second_order": True,
        "linear_cost": False, "ordered": False}
# Not traits, and said likewise.
SAID_BESIDE = ("couples_queries", "reads_order")

# What a model's `forward` may take beside fields.
BESIDE_FIELDS = ("offsets",)

FIELD = r"[A-Za-z_]\w*(@\w+(>\w+)?)?"
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")

TYPES = {"bool": bool, "int": int, "float": float, "str": str}
NAMES = {"bool": "bool", "int": "int", "float": "float", "str": "string"}


class Wrong(Exception):
    """What is wrong with a file, and where."""

    def __init__(self, path, node, text):
        super().__init__(text)
        self.where = [path, getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1, text]


def parsed(path):
    """The tree of a file."""
    with open(path, "rb") as file:
        source = file.read()
    try:
        return ast.parse(source, path)
    except SyntaxError as error:
        wrong = Wrong(path, None, "syntax error: " + str(error.msg))
        wrong.where[1:3] = [error.lineno or 0, error.offset or 0]
        raise wrong from None
    except ValueError as error:  # zero bytes
        raise Wrong(path, None, "no Python: " + str(error)) from None


def dotted(node):
    """"torch.nn.Module" of the expression; "" of any other one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        front = dotted(node.value)
        return front and front + "." + node.attr
    return ""


def last_name(node):
    return dotted(node).rpartition(".")[2]


class Reader:
    """Reads one file. `wrong` ends it with a place."""

    def __init__(self, path):
        self.path = path
        self.tree = parsed(path)
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def wrong(self, node, text):
        raise Wrong(self.path, node, text)

    def bases(self, node):
        """A class and those of this file that it is made of, in the order in which names are looked up."""
        found, waiting = [], [node]
        while waiting:
            one = waiting.pop(0)
            if one in found:
                continue
            found.append(one)
            waiting += [self.classes[base.id] for base in one.bases
                        if isinstance(base, ast.Name) and base.id in self.classes]
        return found

    def method(self, node, name):
        for one in self.bases(node):
            for item in one.body:
                if isinstance(item, ast.FunctionDef) and item.name == name:
                    return item
        return None

    def said(self, node, name):
        """What `name = VALUE` of the class says; None where it does not."""
        for one in self.bases(node):
            for item in one.body:
                if isinstance(item, ast.Assign):
                    targets, value = item.targets, item.value
                elif isinstance(item, ast.AnnAssign) and item.value is not None:
                    targets, value = [item.target], item.value
                else:
                    continue
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    try:
                        return ast.literal_eval(value)
                    except ValueError:
                        self.wrong(value, f"{name}: expected a plain value, which can be read "
                                          "without running the file")
        return None

    def takes_three(self, node):
        forward = self.method(node, "forward")
        if forward is None:
            return False
        positional = forward.args.posonlyargs + forward.args.args
        return len(positional) > 3

    def kind_of(self, node):
        """Of which kind a class is; empty: of none."""
        if self.method(node, "forward") is None:
            whole = self.method(node, "__len__") and self.method(node, "__getitem__")
            return "dataset" if whole else ""
        if self.said(node, "gives") is not None:
            return "model"
        return "attention" if self.takes_three(node) else ""

    def chosen(self, name, kind):
        """The class, and its kind."""
        if name:
            if name not in self.classes:
                known = ", ".join(self.classes) or "none"
                self.wrong(None, f"there is no class '{name}'; classes at the top of the file: {known}")
            node = self.classes[name]
            own = self.kind_of(node)
            kind = kind or own or "attention"
            if kind not in ("attention", own):  # of an attention it is said below what is missing
                self.wrong(node, f"class {name}: " + IS_ONE[kind])
            return node, kind
        of_kind = {}
        for node in self.classes.values():
            if not node.name.startswith("_"):
                of_kind.setdefault(self.kind_of(node), []).append(node)
        kind = kind or next((one for one in GIVEN if one in of_kind), "attention")
        found = of_kind.get(kind, [])
        if not found:
            self.wrong(None, IS_ONE[kind])
        if len(found) > 1:
            self.wrong(found[1], f"the file has several {kind}s: "
                       + ", ".join(node.name for node in found) + "; name one with `class`, as "
                       + f"{os.path.basename(self.path)}:{found[0].name}")
        return found[0], kind

    def parameters(self, function):
        """Behind `self`: each with its default, None where it has none."""
        arguments = function.args
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                self.wrong(extra, f"{function.name}: '{extra.arg}' takes anything; parameters are "
                                  "given by name, so name each that is wanted")
        positional = arguments.posonlyargs + arguments.args
        defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
        return (list(zip(positional, defaults))[1:]
                + list(zip(arguments.kwonlyargs, arguments.kw_defaults)))

    def inputs(self, node):
        """Names of what `forward` takes behind q, k and v."""
        forward = self.method(node, "forward")
        if forward is None:
            self.wrong(node, f"class {node.name} has no method forward(self, q, k, v, ...) in this "
                             "file, where what it takes is read")
        given = self.parameters(forward)
        if not self.takes_three(node):
            self.wrong(forward, "forward: expected (self, q, k, v, ...)")
        if len(forward.args.posonlyargs) > 4:
            self.wrong(forward.args.posonlyargs[4], "forward: parameters behind q, k and v are given "
                                                    "by name; move the '/'")
        names = []
        for parameter, _ in given[3:]:
            if parameter.arg not in INPUTS:
                self.wrong(parameter, f"forward: '{parameter.arg}' is not known; it may take "
                           + ", ".join(INPUTS))
            names.append(parameter.arg)
        return forward, names

    def hook(self, node, name, wanted):
        """The line of a method that is called with these, in this order; 0 where there is none."""
        method = self.method(node, name)
        if method is None:
            return 0
        given = method.args
        names = (given.posonlyargs + given.args)[1:]
        least = len(names) - len(given.defaults)
        enough = len(names) >= len(wanted) or given.vararg is not None
        if least > len(wanted) or not enough or None in given.kw_defaults:
            self.wrong(method, f"{name}: expected (" + ", ".join(("self",) + wanted) + ")")
        return method.lineno

    def flag(self, node, name, otherwise):
        value = self.said(node, name)
        if value is None:
            return otherwise
        if not isinstance(value, bool):
            self.wrong(node, f"{name}: expected True or False, found {value!r}")
        return value

    def traits(self, node, names):
        traits = {trait: False for declared in INPUTS.values() for trait in declared}
        traits["ragged"] = False
        for name in names:
            traits.update(dict.fromkeys(INPUTS[name], True))
        for name, otherwise in SAID.items():
            traits[name] = self.flag(node, name, otherwise)
        if traits["ordered"] and not traits["causal"]:
            self.wrong(node, "ordered: an attention that needs the causal rule takes `causal` or "
                             "`visible` in its forward")
        return traits

    # ---- what models and datasets say

    def texts(self, node, name, pattern, example):
        """A list of texts that the class says; None where it does not."""
        value = self.said(node, name)
        if value is None:
            return None
        texts = list(value) if isinstance(value, (list, tuple)) else [value]
        for text in texts:
            if not isinstance(text, str) or not re.fullmatch(pattern, text):
                self.wrong(node, f"{name}: expected texts like {example}, found {text!r}")
        return texts

    def model(self, node):
        """What a model takes, gives and needs, and which parameter of forward gets which field."""
        forward = self.method(node, "forward")
        parameters = self.parameters(forward)
        gives = self.texts(node, "gives", FIELD, "['logits']")
        if not gives:
            self.wrong(node, "gives: names nothing; a model gives what its task takes, as ['logits']")
        needs = self.texts(node, "needs", r"\w+", "['causal']") or []
        known = [trait for declared in INPUTS.values() for trait in declared] + list(SAID) + ["ragged"]
        for trait in needs:
            if trait not in known:
                self.wrong(node, f"needs: '{trait}' is not a trait of attentions; there are "
                           + ", ".join(dict.fromkeys(known)))
        takes = self.texts(node, "takes", FIELD + r"\??", "['series', 'valid?', 'x@node']")
        if takes is None:
            takes = [one.arg + ("" if default is None else "?") for one, default in parameters
                     if one.arg not in BESIDE_FIELDS]
        fields = {re.split("[@?]", text)[0]: text for text in takes}
        inputs = {}
        for parameter, default in parameters:
            if parameter.arg in BESIDE_FIELDS:
                inputs[parameter.arg] = ""
                continue
            text = fields.get(parameter.arg)
            if text is None:
                self.wrong(parameter, f"forward: '{parameter.arg}' is not among `takes`, which has "
                           + ", ".join(takes))
            if text.endswith("?") and default is None:
                self.wrong(parameter, f"forward: '{parameter.arg}' may be missing in a batch; give it a "
                                      "default, as None")
            inputs[parameter.arg] = text.rstrip("?")
        return {"takes": takes, "gives": gives, "needs": needs, "inputs": inputs,
                "forward_line": forward.lineno}

    def fields(self, node):
        """Of a dataset: [shape, dtype] by the field's name; null is found in the first example."""
        value = self.said(node, "fields")
        if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
            value = dict.fromkeys(value)
        if not isinstance(value, dict) or not value:
            self.wrong(node, f"class {node.name}: say what an example holds, as fields = ['image', "
                             "'class'], or fields = {'series': ([-1, 3], 'float32'), 'class': None}, "
                             "where -1 differs between examples and None is as in the first one")
        fields = {}
        for name, said in value.items():
            if not isinstance(name, str) or not re.fullmatch(FIELD, name):
                self.wrong(node, f"fields: {name!r} is not a name; expected 'series', or 'x@node' for rows of "
                                 "an axis")
            if said is None:
                fields[name] = [None, None]
                continue
            shape, dtype = said if isinstance(said, (list, tuple)) and len(said) == 2 else (None, None)
            whole = isinstance(shape, (list, tuple)) and all(
                isinstance(size, int) and not isinstance(size, bool) and size >= -1 for size in shape)
            if not whole or dtype not in DTYPES:
                self.wrong(node, f"fields: '{name}': expected (shape, dtype), as ([-1, 3], 'float32'), or "
                                 f"None, found {said!r}; dtypes are " + ", ".join(DTYPES))
            fields[name] = [list(shape), dtype]
        return fields

    def dataset(self, node, given):
        """What examples hold, and whether they are augmented."""
        if "split" not in given:
            place = self.method(node, "__init__") or node
            self.wrong(place, f"class {node.name}: its constructor takes `split`, which is 'train', "
                              "'validation' or 'test': def __init__(self, split, ...)")
        item = self.method(node, "__getitem__")
        names = [parameter.arg for parameter, _ in self.parameters(item)]
        if len(names) not in (1, 2) or names[1:] not in ([], ["random"]):
            self.wrong(item, "__getitem__: expected (self, index), or (self, index, random): a generator "
                             "of numpy in training, else None")
        fields = self.fields(node)
        return {"gives": list(fields), "fields": fields, "augments": len(names) == 2,
                "forward_line": item.lineno}

    # ---- options

    def number(self, node, what):
        try:
            value = ast.literal_eval(node)
        except ValueError:
            value = None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.wrong(node, f"{what}: expected a number")
        return value

    def bounds(self, call, option):
        """Range(0, 1), Range(low=0) beside a type."""
        given = dict(zip(("low", "high"), call.args))
        given.update({word.arg: word.value for word in call.keywords})
        for name, node in given.items():
            if name not in ("low", "high"):
                self.wrong(call, f"Range: expected low and high, found '{name}'")
            option[name] = self.number(node, "Range")

    def annotate(self, node, option):
        """Fills in type, list, choices and bounds from an annotation."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):  # 'float'
            try:
                inner = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                self.wrong(node, f"{option['name']}: '{node.value}' is not a type")
            ast.copy_location(inner, node)
            return self.annotate(inner, option)
        name = last_name(node)
        if name in TYPES:
            option["type"] = NAMES[name]
            return None
        if isinstance(node, ast.Subscript):
            outer, inner = last_name(node.value), node.slice
            if type(inner).__name__ == "Index":  # Python 3.8
                inner = inner.value
            if outer == "Annotated" and isinstance(inner, ast.Tuple):
                self.annotate(inner.elts[0], option)
                for extra in inner.elts[1:]:
                    if isinstance(extra, ast.Constant) and isinstance(extra.value, str):
                        option["help"] = extra.value
                    elif isinstance(extra, ast.Call) and last_name(extra.func) == "Range":
                        self.bounds(extra, option)
                return None
            if outer == "Literal":
                words = [getattr(one, "value", None)
                         for one in (inner.elts if isinstance(inner, ast.Tuple) else [inner])]
                if not all(isinstance(word, str) for word in words):
                    self.wrong(node, f"{option['name']}: choices are texts, as Literal['a', 'b']")
                option.update(type="string", choices=words)
                return None
            if outer in ("list", "List") and last_name(inner) in ("int", "float", "str"):
                option.update(type=NAMES[last_name(inner)], list=True)
                return None
        self.wrong(node, f"{option['name']}: an option is bool, int, float, str, Literal[texts], a "
                         "list of int, float or str, or Annotated[one of these, Range(low, high)]")

    def guess(self, node, option):
        """The type of a default, where there is no annotation."""
        value = ast.literal_eval(node)
        if isinstance(value, list) and value:
            option["list"] = True
            value = value[0]
        name = type(value).__name__
        if name not in TYPES:
            raise ValueError
        option["type"] = NAMES[name]

    def default(self, node, option):
        """A default as manifests write it."""
        try:
            value = ast.literal_eval(node)
        except ValueError:
            self.wrong(node, f"{option['name']}: its default must be a plain value, which can be "
                             "read without running the file")
        kinds = {"bool": bool, "int": int, "float": (int, float), "string": str}[option["type"]]
        for item in value if option.get("list") and isinstance(value, list) else [value]:
            if not isinstance(item, kinds) or (isinstance(item, bool) and option["type"] != "bool"):
                what = "; an option always has a value" if item is None else ""
                a = "an" if option["type"] == "int" else "a"
                self.wrong(node, f"{option['name']}: {item!r} is not {a} {option['type']}{what}")
        if option.get("list") and not isinstance(value, list):
            self.wrong(node, f"{option['name']}: its default must be a list")
        return [written(item, option) for item in value] if option.get("list") \
            else written(value, option)

    def options(self, node, helps, kind):
        """Options of the constructor, and what it asks for of what is given."""
        constructor = self.method(node, "__init__")
        options, given = [], []
        for parameter, default in self.parameters(constructor) if constructor else []:
            if parameter.arg in GIVEN[kind]:
                given.append(parameter.arg)
                continue
            option = {"name": parameter.arg, "help": ""}
            if parameter.annotation is not None:
                self.annotate(parameter.annotation, option)
            elif default is None:
                self.wrong(parameter, f"{parameter.arg}: an option without default needs a type, as "
                                      f"{parameter.arg}: float ({WHO_GIVES[kind]} gives "
                                      f"{', '.join(GIVEN[kind])})")
            else:
                try:
                    self.guess(default, option)
                except ValueError:
                    self.wrong(default, f"{parameter.arg}: give a type, as {parameter.arg}: float = "
                                        "1.0; the default does not tell it")
            if default is None:
                option["required"] = True
            else:
                option["default"] = self.default(default, option)
            option["help"] = option["help"] or helps.get(parameter.arg, "")
            option["place"] = [parameter.lineno, parameter.col_offset + 1]
            options.append(option)
        return options, given


def written(value, option):
    """A value as manifests write it: infinities in YAML's words, 1 of a float as 1.0."""
    if option["type"] != "float":
        return value
    value = float(value)
    if math.isnan(value):
        return ".nan"
    return value if math.isfinite(value) else (".inf" if value > 0 else "-.inf")


def helps_in(*docstrings):
    """Lines like `temperature: what it does` of docstrings, by the word."""
    helps = {}
    for text in docstrings:
        for line in (text or "").splitlines():
            match = re.match(r"\s*(\w+)\s*(?:\([^)]*\))?\s*:\s+(\S.*)", line)
            if match:
                helps.setdefault(match.group(1), match.group(2).strip())
    return helps


def first_line(*docstrings):
    for text in docstrings:
        lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
        if lines:
            return lines[0].rstrip(".")
    return ""


# ---- what a file imports

def module_file(folder, parts):
    """The file of `a.b` below a folder; None where it is none of ours."""
    path = os.path.join(folder, *parts)
    for file in (path + ".py", os.path.join(path, "__init__.py")):
        if os.path.isfile(file):
            return file
    return None


class Imports:
    """The files of a folder that one of them needs, itself first, and packages from elsewhere."""

    def __init__(self, path):
        self.folder = os.path.dirname(path)
        self.files, self.packages = [], set()
        self.places = {}  # of the first import of each package
        self.outside = []  # files beyond the folder: [file, line, column, text], as errors are
        self.add(path)

    def add(self, path):
        if path in self.files:
            return
        self.files.append(path)
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.need(path, node, self.folder, alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                start = self.folder
                if node.level:
                    start = os.path.dirname(path)
                    for _ in range(node.level - 1):
                        start = os.path.dirname(start)
                parts = node.module.split(".") if node.module else []
                if parts:
                    self.need(path, node, start, parts, relative=bool(node.level))
                for alias in node.names:  # which may be a module, too
                    self.take(path, node, module_file(start, parts + [alias.name]))

    def is_ours(self, file):
        return os.path.normpath(file).startswith(self.folder + os.sep)

    def take(self, path, node, file):
        """Whether there is a file, and it is in the folder."""
        if file is None:
            return False
        if self.is_ours(file):
            self.add(os.path.normpath(file))
            return True
        self.lies_outside([path, node.lineno, node.col_offset + 1], os.path.normpath(file))
        return False

    def lies_outside(self, place, file):
        self.outside.append(place + [f"imports {file}, which lies outside the file's folder; only what is in "
                                     "that folder can be shared with it: move it there"])

    def need(self, path, node, start, parts, relative=False):
        found = False
        for length in range(1, len(parts) + 1):
            found = self.take(path, node, module_file(start, parts[:length])) or found
        if not found and not relative and not os.path.isdir(os.path.join(start, parts[0])):
            self.packages.add(parts[0])
            self.places.setdefault(parts[0], [path, node.lineno, node.col_offset + 1])

    def look_for(self, unknown):
        """Finds files that are not packages: on PYTHONPATH, say. It runs none of them."""
        import importlib.util
        for name in unknown:
            try:
                found = importlib.util.find_spec(name)
            except (ImportError, ValueError, AttributeError):
                continue
            file = found and (found.origin or next(iter(found.submodule_search_locations or ()), None))
            folders = (file or "").split(os.sep)
            if os.path.isabs(file or "") and not {"site-packages", "dist-packages"} & set(folders):
                self.lies_outside(self.places[name], file)


def look_up_as_a_program():
    """-I leaves out folders in which the program's own interpreter finds packages."""
    import site
    sys.path += [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    own = site.getusersitepackages()
    if os.path.isdir(own):
        sys.path.append(own)


def is_standard(name):
    return name in getattr(sys, "stdlib_module_names", frozenset(sys.builtin_module_names))


def versions(packages):
    """Versions of Python, torch and of imported packages, where they are known."""
    import platform
    from importlib import metadata
    found = {"python": platform.python_version()}
    distributions = None
    for name in sorted(packages | {"torch"}):
        if is_standard(name) or name == "attnlab":
            continue
        try:
            found[name] = metadata.version(name)
            continue
        except metadata.PackageNotFoundError:
            pass
        if distributions is None:  # it reads the records of every package
            distributions = getattr(metadata, "packages_distributions", dict)()
        for one in distributions.get(name, [])[:1]:
            found[name] = metadata.version(one)
    return found


def plugin_file(path, name="", kind=""):
    """All that the file says of one attention, model or dataset.

    path: absolute. name: the class's, or empty. kind: or empty. Raises Wrong.
    """
    reader = Reader(path)
    node, kind = reader.chosen(name, kind)
    said = {"takes": [], "gives": [], "needs": []}
    if kind == "attention":
        forward, names = reader.inputs(node)
        said.update(traits=reader.traits(node, names), forward_line=forward.lineno, inputs=names,
                    losses_line=reader.hook(node, "losses", ()),
                    beside={flag: reader.flag(node, flag, False) for flag in SAID_BESIDE})
    constructor = reader.method(node, "__init__")
    documents = [ast.get_docstring(node), ast.get_docstring(constructor) if constructor else None]
    options, given = reader.options(node, helps_in(*documents), kind)
    if kind == "model":
        said.update(reader.model(node))
    elif kind == "dataset":
        said.update(reader.dataset(node, given))
    if kind != "dataset":
        reader.hook(node, "after_step", ("step", "learning_rate"))
    for field in ("version", "citation", "licence"):
        value = reader.said(node, field)
        if value is not None and not isinstance(value, str):
            reader.wrong(node, f"{field}: expected a text, found {value!r}")
        said[field] = value or ""
    schema = [
        {"name": "file", "type": "string", "required": True, "help": "the Python file"},
        {"name": "class", "type": "string", "default": "", "help": "the class in it, where it has "
                                                                   f"several {kind}s"},
    ]
    if options:
        schema.append({"name": "options", "type": "group", "options": options,
                       "help": f"those of class {node.name}"})
    stem = os.path.splitext(os.path.basename(path))[0]
    return dict(
        said, id="python/" + stem, kind=kind,
        summary=first_line(documents[0], ast.get_docstring(reader.tree)), options=schema, stamp={},
        **{"class": node.name}, place=[node.lineno, node.col_offset + 1], constructor=given)


def main(path, name, kind):
    try:
        said = plugin_file(path, name, kind)
        imports = Imports(path)
        said["sources"] = [os.path.relpath(file, imports.folder) for file in imports.files]
        look_up_as_a_program()
        said["versions"] = versions(imports.packages)
        imports.look_for(sorted(name for name in imports.packages - set(said["versions"])
                                if not is_standard(name) and name != "attnlab"))
        said["outside"] = imports.outside
    except Wrong as wrong:
        said = {"error": wrong.where}
    except OSError as error:
        said = {"error": [path, 0, 0, f"cannot be read: {error.strerror}"]}
    print(json.dumps(said))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3])

"""What is read of an attention's Python file without running it: no program, no torch."""
import os
import tempfile
import unittest

from attnlab import _plugin_file

HEAD = "import torch\nclass Mine(torch.nn.Module):\n"
FORWARD = "    def forward(self, q, k, v):\n        return v\n"


class PluginFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, text, name=""):
        return _plugin_file.plugin_file(self.write("mine.py", text), name)

    def options(self, parameters):
        said = self.read(f"{HEAD}    def __init__(self, {parameters}):\n        pass\n{FORWARD}")
        return {option["name"]: option for one in said["options"] for option in one.get("options", [])}

    def wrong(self, text, name=""):
        with self.assertRaises(_plugin_file.Wrong) as caught:
            self.read(text, name)
        self.assertEqual(caught.exception.where[0], os.path.join(self.folder, "mine.py"))
        return caught.exception.where[1:]

    def test_forward_says_the_traits(self):
        said = self.read(HEAD + "    def forward(self, q, k, v, visible, bias=None, *, state):\n        pass\n")
        self.assertEqual(said["inputs"], ["visible", "bias", "state"])
        true = {name for name, value in said["traits"].items() if value}
        self.assertEqual(true, {"causal", "window", "padding", "pair_mask", "bias", "different_lengths",
                                "different_source", "second_order"})

    def test_class_attributes_say_the_others(self):
        said = self.read(HEAD + "    linear_cost = True\n    second_order: bool = False\n"
                                "    couples_queries = True\n" + FORWARD)
        self.assertTrue(said["traits"]["linear_cost"])
        self.assertFalse(said["traits"]["second_order"])
        self.assertTrue(said["beside"]["couples_queries"])
        self.assertIn("linear_cost", self.wrong(HEAD + "    linear_cost = 1\n" + FORWARD)[2])

    def test_options_have_types_ranges_and_choices(self):
        options = self.options("heads, g: int, a: float = 1, b: 'int' = -2, c=True, d: List[float] = [1, 2.5], "
                               "e: Literal['x', 'y'] = 'y', f: Annotated[float, Range(0, high=1), 'help'] = .5, "
                               "*, h='text', i=1e400")
        self.assertNotIn("heads", options)
        self.assertEqual((options["a"]["type"], options["a"]["default"]), ("float", 1.0))
        self.assertEqual((options["b"]["type"], options["b"]["default"]), ("int", -2))
        self.assertEqual((options["c"]["type"], options["c"]["default"]), ("bool", True))
        self.assertEqual((options["d"]["list"], options["d"]["default"]), (True, [1.0, 2.5]))
        self.assertEqual(options["e"]["choices"], ["x", "y"])
        self.assertEqual((options["f"]["low"], options["f"]["high"], options["f"]["help"]), (0, 1, "help"))
        self.assertTrue(options["g"]["required"])
        self.assertEqual((options["h"]["type"], options["h"]["default"]), ("string", "text"))
        self.assertEqual(options["i"]["default"], ".inf")

    def test_wrong_options_have_a_place(self):
        def wrong(parameters):
            return self.wrong(f"{HEAD}    def __init__(self, {parameters}):\n        pass\n{FORWARD}")
        self.assertEqual(wrong("a: float = None")[:2], [3, 35])
        self.assertIn("plain value", wrong("a: float = torch.pi")[2])
        self.assertIn("needs a type", wrong("a")[2])
        self.assertIn("not an int", wrong("a: int = 1.5")[2])
        self.assertIn("not a float", wrong("a: float = True")[2])
        self.assertIn("must be a list", wrong("a: list[int] = 1")[2])
        self.assertIn("'more'", wrong("*more")[2])
        self.assertIn("Range", wrong("a: Annotated[float, Range('x', 1)] = 1")[2])

    def test_a_class_may_take_its_methods_from_another_of_the_file(self):
        text = (HEAD + "    def __init__(self, a: float = 2.0):\n        pass\n" + FORWARD
                + "class Other(Mine):\n    '''Colder.'''\n")
        self.assertEqual(self.read(text, "Other")["summary"], "Colder")
        self.assertEqual(self.read(text, "Other")["options"][2]["options"][0]["default"], 2.0)
        self.assertIn("name one", self.wrong(text)[2])
        self.assertIn("no class 'None_'", self.wrong(text, "None_")[2])

    def test_helpers_and_private_classes_are_no_attentions(self):
        text = ("class Block:\n    def forward(self, x):\n        return x\n"
                "class _Base:\n" + FORWARD + HEAD[13:] + FORWARD)
        self.assertEqual(self.read(text)["class"], "Mine")

    def test_imports_of_the_own_folder_count(self):
        self.write("near.py", "import numpy\nfrom parts.deep import something\n")
        self.write("parts/__init__.py", "")
        self.write("parts/deep.py", "from . import beside\nfrom .. import outside\n")
        self.write("parts/beside.py", "")
        self.write("unused.py", "")
        path = self.write("mine.py", "import os\nimport near\ndef f():\n    import einops.layers\n")
        imports = _plugin_file.Imports(path)
        files = {os.path.relpath(file, self.folder) for file in imports.files}
        self.assertEqual(files, {"mine.py", "near.py", "parts/__init__.py", "parts/deep.py",
                                 "parts/beside.py"})
        self.assertEqual(imports.packages, {"os", "numpy", "einops"})

    def test_versions_leave_out_what_is_standard_or_not_there(self):
        found = _plugin_file.versions({"os", "no_such_package_anywhere"})
        self.assertIn("python", found)
        self.assertLessEqual(set(found), {"python", "torch"})

    def test_models_and_datasets_are_told_apart(self):
        model = ("class Net(torch.nn.Module):\n    gives = ['logits']\n    needs = ['causal']\n"
                 "    takes = ['x@node', 'class?']\n"
                 "    def __init__(self, attention, shapes, depth: int = 2):\n        pass\n"
                 "    def forward(self, x, offsets):\n        pass\n")
        data = ("class Data:\n    fields = {'x@node': ([-1, 3], 'float32'), 'class': None}\n"
                "    def __init__(self, split, seed, size: int = 3):\n        pass\n"
                "    def __len__(self):\n        pass\n"
                "    def __getitem__(self, index, random):\n        pass\n")
        path = self.write("mine.py", HEAD + FORWARD + model + data)
        self.assertEqual(_plugin_file.plugin_file(path)["kind"], "attention")
        said = _plugin_file.plugin_file(path, kind="model")
        self.assertEqual((said["class"], said["takes"], said["gives"], said["needs"]),
                         ("Net", ["x@node", "class?"], ["logits"], ["causal"]))
        self.assertEqual(said["inputs"], {"x": "x@node", "offsets": ""})
        said = _plugin_file.plugin_file(path, "Data")
        self.assertEqual((said["kind"], said["gives"], said["augments"], said["constructor"]),
                         ("dataset", ["x@node", "class"], True, ["split", "seed"]))
        self.assertEqual(said["fields"]["x@node"], [[-1, 3], "float32"])
        with self.assertRaises(_plugin_file.Wrong) as caught:
            _plugin_file.plugin_file(path, "Data", "model")
        self.assertIn("no class is a model", caught.exception.where[3])
        self.assertIn("'y' is not among", self.wrong("import torch\n" + model.replace("x, off", "y, off"))[2])
        self.assertIn("'colour' is not a trait", self.wrong("import torch\n" + model.replace("causal", "colour"))[2])
        self.assertIn("takes `split`", self.wrong(data.replace("split, ", ""))[2])


if __name__ == "__main__":
    unittest.main()

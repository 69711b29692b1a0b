"""The package by what a user does: python3 -m unittest discover python/tests, with $ATTNLAB_PROGRAM."""
import json
import os
import pathlib
import tempfile
import unittest

import attnlab
from attnlab.program import other_torch

SMALL = {"train.epochs": 1, "train.threads": 1, "dataset.train": 64, "dataset.test": 32}


class InAFolder(unittest.TestCase):
    """Each test works in a new folder."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        before = os.getcwd()
        os.chdir(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, before)


class Plugins(InAFolder):
    def test_lists_what_the_program_lists(self):
        names = {plugin["id"] for plugin in attnlab.list_plugins("attention")}
        self.assertTrue({"attnlab/standard", "attnlab/quest"} <= names)

    def test_describes_options(self):
        self.assertEqual(attnlab.describe("quest")["kind"], "attention")

    def test_an_unknown_plugin_is_refused_in_the_programs_words(self):
        with self.assertRaises(attnlab.AttnlabError) as raised:
            attnlab.describe("qest")
        self.assertIn("quest", str(raised.exception))
        self.assertEqual(raised.exception.code, 2)


class Experiments(InAFolder):
    def test_a_run_returns_its_metrics_and_lines(self):
        done = attnlab.run("vit_synthetic", SMALL, seeds=[0, 1], progress=False)
        self.assertEqual(len(done), 2)
        status = json.loads((done[0].path / "status.json").read_text())
        self.assertEqual(done[0].metrics, status["metrics"])
        self.assertEqual(status["state"], "done")
        self.assertTrue(done[0].lines("test") or done[0].lines("train"))
        self.assertEqual({row["seed"] for row in done.rows()}, {0, 1})

    def test_a_finished_run_is_returned_again(self):
        first = attnlab.run("vit_synthetic", SMALL, progress=False)
        again = attnlab.run("vit_synthetic", SMALL, progress=False)
        self.assertEqual([run.path for run in first], [run.path for run in again])

    def test_a_dictionary_is_a_composition(self):
        done = attnlab.run({"name": "mine", "extends": "vit_synthetic", "attention": "quest"}, SMALL,
                           progress=False)
        self.assertIn("mine", str(done[0].path))
        self.assertIn("quest", (done[0].path / "config.yaml").read_text())
        self.assertEqual([str(file) for file in pathlib.Path(".").glob(".attnlab-*")], [])

    def test_a_dictionary_without_a_name_is_refused(self):
        with self.assertRaisesRegex(attnlab.AttnlabError, "name"):
            attnlab.run({"extends": "vit_synthetic"})

    def test_a_wrong_value_is_refused_with_its_key(self):
        with self.assertRaisesRegex(attnlab.AttnlabError, "epochs"):
            attnlab.run("vit_synthetic", {"train.epochs": "many"}, progress=False)

    def test_a_sweep_has_a_run_a_point_and_compares(self):
        attnlab.run("vit_synthetic", SMALL, seeds=[7], progress=False)  # is none of the sweep's
        done = attnlab.sweep("vit_synthetic", {"attention": ["standard", "quest"]}, SMALL,
                             progress=False)
        self.assertEqual(len(done), 2)
        comparison = attnlab.compare(done[0].path.parents[2])
        self.assertIn("quest", repr(comparison))
        self.assertIn("|", comparison._repr_markdown_())

    def test_texts_that_look_like_other_values_stay_texts(self):
        from attnlab.experiments import _text
        self.assertEqual([_text(value) for value in ("quest", "True", "NaN", True, None, 1e-5)],
                         ["quest", '"True"', '"NaN"', "true", "null", "1e-05"])

    def test_a_data_frame_needs_pandas_alone(self):
        done = attnlab.run("vit_synthetic", SMALL, progress=False)
        try:
            import pandas
        except ImportError:
            with self.assertRaisesRegex(attnlab.AttnlabError, "pandas"):
                done.frame()
        else:
            self.assertIsInstance(done.frame(), pandas.DataFrame)


class OtherTorch(unittest.TestCase):
    def test_the_release_of_the_build_is_taken(self):
        self.assertIsNone(other_torch(["numpy", "torch==2.14.*"], "2.14.1+cu130"))

    def test_another_release_is_one_sentence_with_both(self):
        text = other_torch(["torch==2.14.*"], "2.15.0")
        self.assertIn("2.14", text)
        self.assertIn("2.15.0", text)
        self.assertIn("pip install 'torch==2.14.*'", text)

    def test_none_is_said(self):
        self.assertIn("none", other_torch(["torch==2.14.*"], None))


if __name__ == "__main__":
    unittest.main()

"""Runs in experiment trackers; what needs their packages is skipped without them."""
import importlib.util
import math
import unittest

import attnlab
from attnlab import trackers
from test_attnlab import SMALL, InAFolder

LOGGED = {**SMALL, "train.log_every": 1}
HAS_MLFLOW = importlib.util.find_spec("mlflow") is not None


class Trackers(InAFolder):
    def setUp(self):
        super().setUp()
        self.run = attnlab.run("vit_synthetic", LOGGED, progress=False)[0]

    def test_points_are_the_numbers_of_the_log(self):
        record = attnlab.runs(self.run.path).record()["runs"][0]
        points = list(trackers._points(self.run, record))
        for split in ("train", "test"):
            lines = self.run.lines(split)
            names = {name for line in lines for name in line if name not in ("split", "step", "epoch")}
            for name in names:
                wanted = [(line["step"], line[name]) for line in lines if math.isfinite(line.get(name, math.nan))]
                self.assertEqual([(step, value) for key, value, step, _ in points if key == f"{split}/{name}"],
                                 wanted)
        self.assertTrue(any(name == "train/loss" for name, *_ in points))
        self.assertTrue(all(0 <= part <= 1 for *_, part in points))

    def test_a_run_keeps_its_key_and_others_have_others(self):
        other = attnlab.run("vit_synthetic", LOGGED, seeds=[1], progress=False)[0]
        one, again, second = (trackers._key(attnlab.runs(run.path).record()["runs"][0])
                              for run in (self.run, self.run, other))
        self.assertEqual(one, again)
        self.assertNotEqual(one, second)

    @unittest.skipIf(HAS_MLFLOW, "MLflow is installed")
    def test_a_missing_package_is_named(self):
        with self.assertRaisesRegex(attnlab.AttnlabError, "pip install mlflow"):
            trackers.to_mlflow(self.run.path)

    @unittest.skipUnless(HAS_MLFLOW, "MLflow is not installed")
    def test_mlflow_has_settings_results_and_curves_once(self):
        import mlflow
        mlflow.set_tracking_uri("sqlite:///mlflow.db")
        self.assertEqual([trackers.to_mlflow(self.run.path) for _ in range(2)], [1, 0])
        client = mlflow.MlflowClient()
        place = client.get_experiment_by_name("attnlab").experiment_id
        stored, = client.search_runs([place])
        self.assertEqual(stored.data.metrics["accuracy"], self.run.metrics["accuracy"])
        self.assertEqual(stored.data.params["train.epochs"], "1")
        self.assertEqual(stored.info.status, "FINISHED")
        client.set_tag(stored.info.run_id, "state", "running")  # as if it had been sent before its end
        self.assertEqual(trackers.to_mlflow(self.run.path), 1)
        stored, = client.search_runs([place])
        losses = [line["loss"] for line in self.run.lines("train")]
        self.assertEqual([point.value for point in client.get_metric_history(stored.info.run_id, "train/loss")], losses)


if __name__ == "__main__":
    unittest.main()

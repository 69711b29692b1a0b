#!/usr/bin/env python3
"""Average precision of boxes by rule, as pycocotools computes it, for eval/coco_precision_test.cpp.

Usage: tests/references/coco_precision.py     (needs pycocotools)
"""
import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

state = 1


def below(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % n


known, found = [], []
for image in range(40):
    own = []
    for _ in range(below(6)):
        x, y, w, h = below(300), below(200), 6 + below(150), 6 + below(150)
        crowd = int(below(8) == 0)
        area = w * h * (50 + below(51)) / 100
        own.append((x, y, w, h))
        known.append({"id": len(known) + 1, "image_id": image, "category_id": 1, "iscrowd": crowd,
                      "bbox": [x, y, w, h], "area": area})
    boxes = []
    for x, y, w, h in own:
        for _ in range(below(4)):
            boxes.append((x + below(w // 8 + 1), y + below(h // 8 + 1),
                          w - below(w // 9 + 1), h - below(h // 9 + 1)))
    for _ in range(below(3)):
        boxes.append((below(300), below(200), 6 + below(150), 6 + below(150)))
    for box in boxes:
        found.append({"image_id": image, "category_id": 1, "bbox": list(box),
                      "score": below(2**31) / 2**31})

truth = COCO()
truth.dataset = {"images": [{"id": i} for i in range(40)], "annotations": known,
                 "categories": [{"id": 1, "name": "thing"}]}
truth.createIndex()
answers = COCO()
answers.dataset = {"images": truth.dataset["images"], "categories": truth.dataset["categories"],
                   "annotations": [dict(one, id=i + 1, area=one["bbox"][2] * one["bbox"][3], iscrowd=0)
                                   for i, one in enumerate(found)]}
answers.createIndex()
judge = COCOeval(truth, answers, "bbox")
judge.evaluate()
judge.accumulate()
precision = judge.eval["precision"]  # thresholds, recalls, classes, ranges, most
for k, name in enumerate(["all", "small", "medium", "large"]):
    means = np.mean(precision[:, :, 0, k, 2], axis=1)
    print(name, ", ".join(f"{x:.15f}" for x in means))

"""The VOC development kit's evaluation of classification: its loops, on the files that it reads."""

import os


def voc_evaluate(truth_file, result_file):
    """Return the average precision of one class from CLASS_SUBSET.txt and a result file."""
    with open(truth_file) as stream:
        truth = [line.split() for line in stream]
    ids, wanted = [key for key, _ in truth], [int(label) for _, label in truth]
    given = [float("-inf")] * len(ids)
    with open(result_file) as stream:
        for line in stream:
            key, confidence = line.rstrip("\n").split(" ")  # exactly one space, as "%s %f" writes it
            assert "e" not in confidence
            given[ids.index(key)] = float(confidence)
    order = sorted(range(len(ids)), key=lambda place: -given[place])
    true, false, n_positive = 0, 0, sum(label > 0 for label in wanted)
    recalls, precisions = [0.0], [0.0]
    for place in order:
        if wanted[place] == 0:
            continue
        true += wanted[place] > 0
        false += wanted[place] < 0
        recalls.append(true / n_positive)
        precisions.append(true / (true + false))
    recalls.append(1.0)
    precisions.append(0.0)
    for place in range(len(precisions) - 2, -1, -1):
        precisions[place] = max(precisions[place], precisions[place + 1])
    area = 0.0
    for place in range(1, len(recalls)):
        area += (recalls[place] - recalls[place - 1]) * precisions[place]
    return area


def write_voc(root, truth, classes, subsets, images=True):
    """Write a small folder in the layout of VOC; ``subsets`` maps names to ids, ``truth`` ids to labels."""
    lists, photos = root / "ImageSets" / "Main", root / "JPEGImages"
    os.makedirs(lists)
    os.makedirs(photos)
    for subset, ids in subsets.items():
        (lists / f"{subset}.txt").write_text("".join(f"{key}\n" for key in ids))
        for column, name in enumerate(classes):
            if subset != "test":
                lines = [f"{key} {truth[key][column]:2d}\n" for key in ids]
                (lists / f"{name}_{subset}.txt").write_text("".join(lines))
        for key in ids if images else ():
            (photos / f"{key}.jpg").write_bytes(b"x")

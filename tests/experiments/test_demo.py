from types import SimpleNamespace

from ddsfl.experiments import demo


class Recorder:
    """Replaces the console and the model; records the order of calls."""

    def __init__(self):
        self.events, self.prefix, self.classes_ = [], "", ["a", "b"]

    def stage(self, name, found):
        self.events.append(name)

    def begin(self, name):
        self.events.append(name)

    def progress(self, done, total):
        self.events.append((done, total))

    def steps(self, done, most):
        self.events.append((done, most))

    def close(self):
        self.events.append("close")

    def fit(self, images, labels, report, progress, steps):
        report("classifier", False)

    def predict(self, images, progress=lambda done, total: None):
        self.events.append("predict")
        progress(len(images), len(images))
        return ["a", "b"]


def test_predicting_has_its_own_progress(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(demo, "demo_scenes", lambda seed: ([0, 1], ["a", "b"], [2, 3], ["a", "b"]))
    monkeypatch.setattr(demo, "SceneClassifier", lambda *arguments, **options: recorder)
    scores, model, answers = demo.compare_kinds(0, console=recorder)
    assert recorder.events == ["classifier", "test images", "predict", (2, 2)] * 3 + ["close"]
    assert model is recorder
    assert answers == ["a", "b"]
    assert [score["accuracy"] for score in scores.values()] == [1.0] * 3


def test_wrong_answers_are_explained_first_and_none_twice(monkeypatch):
    labels = ["a", "b", "a", "b", "a", "b"]
    named = []

    def explanations(model, images, names, progress):
        named.extend(names)
        return iter(())

    monkeypatch.setattr(demo, "demo_scenes", lambda seed: ([], [], list(range(6)), labels))
    monkeypatch.setattr(demo, "explanations", explanations)
    monkeypatch.setattr(demo, "word_nouns", lambda model: {})
    monkeypatch.setattr(demo, "why_page", lambda images: f"{len(images)} images")
    model = SimpleNamespace(
        collect_patches=lambda *images, progress: None, settings_=SimpleNamespace(image_list=list)
    )
    assert demo.explain_some(model, ["a", "a", "a", "b", "a", "a"], seed=0) == "0 images"
    assert named == [f"test image {n}, drawn as {labels[n]}" for n in (1, 5, 0, 2, 3, 4)]

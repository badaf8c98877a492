"""The first hour of a data scientist with `SceneClassifier` in a notebook, cell by cell.

`cell` runs code as a notebook does and returns what appears below it: printed text, warnings, the value of
the last line, or the error. Every test starts after FIRST_CELLS.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ddsfl
from tests.support.tiny import TINY, write_scenes

pytest.importorskip("pandas")  # which a notebook has, and the library does not need

KERNEL = """
import ast, contextlib, io, json, sys
names = {}
for line in sys.stdin:
    below = io.StringIO()
    with contextlib.redirect_stdout(below), contextlib.redirect_stderr(below):
        try:
            cell = ast.parse(json.loads(line))
            last = cell.body.pop() if isinstance(cell.body[-1], ast.Expr) else None
            exec(compile(cell, "cell", "exec"), names)
            value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(repr(value))
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
    print(json.dumps(below.getvalue().strip()), flush=True)
"""

FIRST_CELLS = f"""
from pathlib import Path
import numpy as np
import pandas as pd
from ddsfl import SceneClassifier

paths = sorted(Path("meine Bilder/schöne").glob("*/*"))
labels = [path.parent.name for path in paths]
small = {TINY}
model = SceneClassifier("quick", changes=small, random_state=0).fit(paths, labels)
"""


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """A notebook in a folder of its own, in which the first cells ran."""
    folder = tmp_path_factory.mktemp("notebook")
    write_scenes(folder / "meine Bilder" / "schöne", n_per_class=8, classes=4)
    environment = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "PYTHONPATH": str(Path(ddsfl.__file__).parents[1]),
        "PYTHONUTF8": "1",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
    }
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )

    def run(code: str) -> str:
        print(json.dumps(code), file=kernel.stdin, flush=True)
        return json.loads(kernel.stdout.readline())

    assert run(FIRST_CELLS) == ""  # no warning, no noise
    yield run
    kernel.stdin.close()
    assert kernel.wait(timeout=30) == 0


def test_the_first_answers(cell):
    assert cell("model.classes_.tolist()") == "['facade', 'field', 'forest', 'garden']"
    assert cell("model.predict(paths[:2]).tolist()") == "['facade', 'facade']"
    assert cell("p = model.predict_proba(paths); p.shape, bool(np.allclose(p.sum(axis=1), 1))") == (
        "((32, 4), True)"
    )
    assert float(cell("model.score(paths, labels)")) > 0.8
    assert cell("model.training_['images_per_class']") == "[8, 8, 8, 8]"


def test_the_model_can_be_looked_at(cell):
    assert cell("model").startswith("SceneClassifier(changes={")
    assert cell("html = model._repr_html_(); 'Fitted' in html, 'stack_' in html") == "(True, True)"
    help_page = cell("import pydoc; print(pydoc.plain(pydoc.render_doc(SceneClassifier)))")
    assert "sharing_[0]" in help_page
    assert '"classifier.class_weight": "balanced"' in help_page
    assert "set_predict_request" not in help_page  # pages of scikit-learn's own, about progress
    assert cell("model.stack_.sharing_[0].shape, model.stack_.pixel_filters_[0].shape") == (
        "((4, 10), (10, 1, 16, 16))"
    )
    assert cell("model.settings_in_use().to_json()['layers'][0]['bank']['n_filters']") == "10"


def test_the_same_images_in_every_form(cell):
    assert not cell("""
import io, torch
from PIL import Image
arrays = [np.array(Image.open(path)) for path in paths]
forms = {
    "text": [str(path) for path in paths],
    "PIL": [Image.open(path) for path in paths],
    "arrays": arrays,
    "floats": [array / 255 for array in arrays],
    "one array": np.stack(arrays),
    "bytes": [path.read_bytes() for path in paths],
    "tensors": [torch.tensor(array)[None] for array in arrays],
    "Series": pd.Series(paths, index=range(100, 100 + len(paths))),
    "DataFrame": pd.DataFrame({"path": [str(path) for path in paths]}),
    "iterator": iter(paths),
}
expected = model.predict(paths)
""")
    assert cell("[name for name, X in forms.items() if (model.predict(X) != expected).any()]") == "[]"


@pytest.mark.parametrize(
    ("X", "answer"),
    [
        ("np.zeros((96, 96), np.uint8)", "X is one image (an array of shape (96, 96)); expected a list"),
        ("paths[0]", "X is one image ('meine Bilder/schöne/"),
        ("'meine Bilder'", "X is the folder 'meine Bilder'; expected a list of images: sorted("),
        ("[]", "X is empty; expected at least one image."),
        ("['nope.png']", "nope.png cannot be read: no such file or directory."),
        ("[np.zeros((9, 9)) + 200]", "floats must lie in [0, 1]; found 200 to 200 (perhaps divide by 255)."),
        ("pd.DataFrame({'a': ['x'], 'b': ['y']})", "X has 2 columns (a, b); expected one column of images."),
        ("pd.Series([str(paths[0]), np.nan])", "image 1 (given as float) cannot be read: expected a path,"),
    ],
)
def test_images_given_by_mistake(cell, X, answer):
    assert answer in cell(f"model.predict({X})")


@pytest.mark.parametrize(
    ("y", "answer"),
    [
        ("None", "requires y to be passed, but the target y is None"),
        ("labels[1:]", "y has 31 labels; expected one for each of the 32 images."),
        ("[np.nan, *labels[1:]]", "y has no label for image 0"),
        ("np.linspace(0, 1, 32)", "Unknown label type: continuous"),
        ("['sea'] * 32", "y contains only one class, 'sea'; expected at least two."),
        ("[path.parent for path in paths]", "y has labels of type PosixPath (PosixPath('meine Bilder"),
        ("[*labels[1:], 3]", "y mixes kinds of labels ('facade' for image 0, 3 for image 31)"),
        ("[label.encode() for label in labels]", "y has labels of type bytes"),
        ("(label for label in labels)", "y has type generator; expected a list or an array of labels."),
        ("np.eye(4, dtype=int).repeat(8, axis=0).tolist()", "such as [1, 0, 0, 0]; expected an array"),
    ],
)
def test_labels_given_by_mistake(cell, y, answer):
    assert answer in cell(f"SceneClassifier(changes=small).fit(paths, {y})")


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        ("SceneClassifier('qick')", "did you mean 'quick'?"),
        ("SceneClassifier(changes={'eta': 0})", "did you mean 'layers.bank.eta'?"),
        ("SceneClassifier(changes={'class_weight': 'balanced'})", "did you mean 'classifier.class_weight'?"),
        ("SceneClassifier(changes={'layers.bank.n_filters': 0})", "found 0; expected a whole number from 1"),
        ("SceneClassifier(device='gpu')", "device='gpu' is not a device; expected 'auto', 'cpu' or 'cuda'."),
    ],
)
def test_wrong_settings_end_before_any_image_is_read(cell, made, answer):
    assert answer in cell(f"{made}.fit(['nope.png'] * 32, labels)")


def test_a_model_that_is_not_fitted_says_so(cell):
    for question in ("predict(paths)", "novelty(paths)", "save('m.safetensors')", "stack_"):
        assert cell(f"SceneClassifier().{question}").startswith(
            "NotFittedError: This SceneClassifier instance"
        )


def test_weights_and_classes_of_different_sizes(cell):
    assert "sample_weight is 'balanced'; expected one for each of the 32 images." in cell(
        "SceneClassifier(changes=small).fit(paths, labels, sample_weight='balanced')"
    )
    assert not cell("""
few = paths[:8] + paths[8:11]
names = [path.parent.name for path in few]
balanced = SceneClassifier(
    changes={**small, "classifier.class_weight": "balanced"}, random_state=0
).fit(few, names, sample_weight=np.ones(len(few)))
""")
    assert cell("balanced.predict(few[-3:]).shape") == "(3,)"


def test_several_labels_per_image(cell):
    assert not cell("""
tags = pd.DataFrame({"sky": [i % 2 for i in range(32)], "built": [l == "facade" for l in labels]})
tagger = SceneClassifier(changes=small, random_state=0).fit(paths, tags)
""")
    assert cell("tagger.classes_.tolist(), tagger.predict(paths[:3]).shape") == "(['sky', 'built'], (3, 2))"
    same = "(tagger.score(paths, tags), tagger.score(paths, tags[['built', 'sky']]))"
    assert cell(f"first, second = {same}; first == second > 0.5") == "True"
    assert not cell("tuples = [('built',) if label == 'facade' else ('green', label) for label in labels]")
    assert cell("SceneClassifier(changes=small).fit(paths, tuples).classes_.tolist()") == (
        "['built', 'field', 'forest', 'garden', 'green']"
    )


@pytest.mark.slow
def test_the_tools_of_scikit_learn(cell):
    assert not cell("""
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
fresh = SceneClassifier(changes=small, random_state=0)
train, test, y_train, y_test = train_test_split(paths, labels, stratify=labels, random_state=0)
""")
    assert float(cell("fresh.fit(train, y_train).score(test, y_test)")) > 0.25
    assert cell("cross_val_score(clone(fresh), paths, labels, cv=2).shape") == "(2,)"
    assert not cell("""
search = GridSearchCV(fresh, {"changes__layers.bank.eta": [0, 0.01]}, cv=2).fit(paths, labels)
""")
    assert cell("list(search.best_params_)") == "['changes__layers.bank.eta']"
    assert cell("search.best_estimator_.changes['layers.n_scales']") == "2"  # the other changes are kept
    assert "setting layers.bank.etta is unknown; did you mean 'eta'?" in cell(
        "GridSearchCV(fresh, {'changes__layers.bank.etta': [0, 1]}, cv=2).fit(paths, labels)"
    )
    assert not cell("""
pipe = make_pipeline(clone(fresh), LogisticRegression(C=1000)).fit(paths, labels)
""")
    assert cell("pipe.predict(paths).shape") == "(32,)"
    assert not cell("""
table = model.set_output(transform="pandas").transform(pd.Series(paths[:2], index=["a", "b"]))
_ = model.set_output(transform="default")
""")
    assert cell("table.index.tolist(), table.columns[0]") == "(['a', 'b'], 'layer1_0')"


def test_images_in_memory_fit_one_size(cell):
    assert cell("X = model.settings_in_use().image_list(paths); X[:2]") == (
        "<ImageList of 2 images, colour='gray', max_side=300, min_side=32>"
    )
    assert cell("bool((model.predict(X) == model.predict(paths)).all())") == "True"
    # Otherwise a search over the size would compare equal images.
    assert "max_side=300 and min_side=32; expected colour='gray', max_side=50" in cell(
        "SceneClassifier(changes={**small, 'max_side': 50}).fit(X, labels)"
    )


def test_an_interrupted_fit_changes_nothing_and_resumes(cell):
    assert not cell("""
def interrupt(stage, stored):
    if stage == "novelty":
        raise KeyboardInterrupt
half = SceneClassifier(changes=small, random_state=0)
""")
    assert cell("half.fit(paths, labels, checkpoints='unfinished', report=interrupt)").startswith("Keyboard")
    assert cell("half.predict(paths)").startswith("NotFittedError")
    resumed = cell("_ = half.fit(paths, labels, checkpoints='unfinished', report=print)").splitlines()
    assert resumed[0] == "layer1.space True"
    assert resumed[-2:] == ["without True", "novelty False"]
    assert cell("bool((half.predict_proba(paths) == model.predict_proba(paths)).all())") == "True"


def test_saved_loaded_pickled_and_cloned(cell):
    assert not cell("""
import joblib
from sklearn.base import clone
model.save("Größe 1.safetensors")
loaded = SceneClassifier.load("Größe 1.safetensors", device="cpu")
_ = joblib.dump(model, "model.joblib")
""")
    for other in ("loaded", "joblib.load('model.joblib')", "clone(loaded).fit(paths, labels)"):
        assert cell(f"bool(({other}.predict_proba(paths) == model.predict_proba(paths)).all())") == "True"
    assert "no such file or directory" in cell("model.save('nowhere/m.safetensors')")
    assert "model.joblib is not a ddsfl model" in cell("SceneClassifier.load('model.joblib')")
    assert "nix.safetensors cannot be opened" in cell("SceneClassifier.load('nix.safetensors')")


def test_images_unlike_the_training_images(cell):
    assert float(cell("float((model.novelty(paths) > 1).mean())")) < 0.2
    assert not cell("""
noise = np.random.default_rng(0).random((96, 96))
odd = [noise, np.zeros((96, 96), np.uint8), np.full((9, 9), 255, np.uint8)]
""")
    assert cell("(model.novelty(odd) > 1).tolist()") == "[True, True, True]"


def test_the_best_preset_takes_small_images_too(cell):
    assert not cell("""
few = {"layers.bank.n_filters": 8, "layers.bank.max_iter": 3, "blocks.coding.n_gaussians": 2}
best = SceneClassifier("best", changes=few, random_state=0).fit(paths[::4], labels[::4])
""")
    assert cell("best.predict([np.eye(20), np.eye(40)]).shape") == "(2,)"
    assert cell("len(best.get_feature_names_out()) == best.transform(paths[:1]).shape[1]") == "True"

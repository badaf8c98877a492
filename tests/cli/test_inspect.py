"""The command `ddsfl inspect` with training images."""

from PIL import Image

from tests.support.program import run_program
from tests.support.tiny import TINY_OPTIONS, write_scenes


def test_training_images_are_drawn_where_filters_of_one_class_respond(ddsfl, scenes, tmp_path):
    # With this price per filter, classes choose different ones.
    options = [*TINY_OPTIONS, "--set", "layers.bank.lambda2=0.1"]
    assert run_program("train", scenes, "--out", tmp_path / "m", *options) == 0
    code, out, err = ddsfl("inspect", tmp_path / "m", "--out", tmp_path / "pictures", "--training", scenes)
    assert code == 0, err
    assert "training patches" in err
    drawn = sorted(path.name for path in (tmp_path / "pictures").glob("*firing.png"))
    assert drawn
    assert set(drawn) <= {"layer1-firing.png", "layer2-firing.png"}
    for name in drawn:
        assert name in out
        assert Image.open(tmp_path / "pictures" / name).size[0] > 300
    for words in ("own filters, layer 1", "score without it", "Share most filters", "used by all classes"):
        assert words in out
    code, _, _ = ddsfl("inspect", tmp_path / "m", "--out", tmp_path / "without")
    assert code == 0
    assert not list((tmp_path / "without").glob("*firing.png"))


def test_models_without_such_filters_say_so(ddsfl, model, scenes, tmp_path):
    code, _, err = ddsfl("inspect", model, "--out", tmp_path / "pictures", "--training", scenes)
    assert code == 0
    assert "no filter is used by a single class: nothing of the training images is drawn." in err
    words = 'blocks=[{"name":"a","source":"sift","coding":{"method":"vq","n_words":5}}]'
    edges = ["--set", "layers=[]", "--set", words]
    assert run_program("train", scenes, "--out", tmp_path / "m", *edges) == 0
    code, _, err = ddsfl("inspect", tmp_path / "m", "--out", tmp_path / "more", "--training", scenes)
    assert code == 0
    assert "this model has no learned layers" in err


def test_other_images_are_refused(ddsfl, model, tmp_path):
    write_scenes(tmp_path / "other", seed=1)
    code, _, err = ddsfl("inspect", model, "--out", tmp_path / "pictures", "--training", tmp_path / "other")
    assert code == 1
    assert "holds other images than the model was trained with" in err
    assert not list(tmp_path.glob("pictures/*.png"))

"""What the program prints where there is no terminal, no UTF-8 or no GPU, and with unusual names."""

import io
import sys
import threading

import pytest
from PIL import Image

import ddsfl as package
import ddsfl.cli.main
from tests.support.program import run_program
from tests.support.tiny import TINY_OPTIONS, tiny_scenes

#: TeX, which matplotlib would fail on, and letters that ASCII and most fonts lack.
CLASSES = [r"$x$ \frac_^{", "Küche 海滩", "Жар [b]"]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    rows = ["path,label"]
    for number, (image, _) in enumerate(zip(*tiny_scenes())):
        path = folder / f"größe {number}.png"
        Image.fromarray(image).save(path)
        rows.append(f"{path},{CLASSES[number // 4]}")
    (folder / "list.csv").write_text("\n".join(rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model(scenes):
    path = scenes / "m"
    assert run_program("train", scenes / "list.csv", "--out", path, *TINY_OPTIONS) == 0
    return path


def test_every_command_prints_in_ascii(scenes, model, tmp_path, monkeypatch):
    for arguments in (
        ["predict", model, scenes],
        ["predict", model, scenes, "--csv"],
        ["predict", model, scenes, "--json"],
        ["inspect", model, "--out", tmp_path / "pictures"],
        ["evaluate", scenes / "list.csv", "--train", 2, "--splits", 1, *TINY_OPTIONS],
        ["compare", scenes / "list.csv", "--train", 2, "--splits", 1, *TINY_OPTIONS],
        ["datasets", "list"],
        ["reproduce", "components"],
        ["--help"],
    ):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, "ascii", "strict", write_through=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            code = run_program(*arguments)
        assert code == 0, arguments
        out = raw.getvalue().decode("ascii")
        assert out.strip(), arguments
        if model in arguments:
            assert r"K\xfcche \u6d77\u6ee9" in out or r"K\u00fcche \u6d77\u6ee9" in out, arguments


def test_inspect_and_evaluate_draw_classes_named_like_formulas(ddsfl, scenes, model, tmp_path):
    code, out, err = ddsfl("inspect", model, "--out", tmp_path / "pictures")
    assert (code, err) == (0, "")
    assert all(name in out for name in CLASSES)
    assert (tmp_path / "pictures" / "layer1-sharing.png").exists()
    options = ["--train", 2, "--splits", 1, "--out", tmp_path / "cells", *TINY_OPTIONS]
    code, _, err = ddsfl("evaluate", scenes / "list.csv", *options)
    assert code == 0
    assert "Glyph" not in err
    assert (tmp_path / "cells" / "confusion.png").exists()


def test_names_in_a_pipe_are_complete(ddsfl, scenes, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = ddsfl("predict", model, scenes)
    assert all(str(path) in out for path in scenes.glob("*.png"))


def test_a_log_has_no_bars(ddsfl, scenes, tmp_path):
    _, _, err = ddsfl("train", scenes / "list.csv", "--out", tmp_path / "m", *TINY_OPTIONS)
    assert "\r" not in err
    assert "%|" not in err
    assert "layer 1: filter bank: 0" in err


@pytest.mark.parametrize("error", [ValueError("stop"), KeyboardInterrupt(), RuntimeError("a bug")])
def test_an_error_in_a_stage_leaves_no_thread_behind(scenes, tmp_path, monkeypatch, error):
    def fail(*arguments, report, **options):
        report("layer1.bank", False)
        raise error

    monkeypatch.setattr("ddsfl.model.classifier.SceneClassifier.fit", fail)
    with pytest.raises(RuntimeError) if isinstance(error, RuntimeError) else pytest.raises(SystemExit):
        monkeypatch.setattr(
            sys, "argv", ["ddsfl", "train", str(scenes / "list.csv"), "--out", str(tmp_path / "m")]
        )
        package.cli.main.main()
    assert not [thread for thread in threading.enumerate() if thread.name == "ddsfl progress"]


@pytest.mark.parametrize(
    ("arguments", "work"),
    [
        (["train", "SET", "--out", "OUT"], "train.read_checked_set"),
        (["evaluate", "SET", "--train", 2], "splitting.read_checked_set"),
        (["compare", "SET", "--train", 2], "splitting.read_checked_set"),
        (["search", "SET", "--out", "OUT"], "search.read_set"),
        (["demo", "--out", "OUT"], "demo.run_demo"),
    ],
)
def test_an_unused_gpu_is_named_once_and_a_wrong_device_before_the_work(
    ddsfl, scenes, tmp_path, monkeypatch, arguments, work
):
    worked = []

    def stop(*given, **options):
        worked.append(work)
        raise ValueError("that is enough.")

    monkeypatch.setattr(f"ddsfl.cli.{work}", stop)
    monkeypatch.setattr("ddsfl.compute.device.has_nvidia_gpu", lambda: True)
    monkeypatch.setattr("ddsfl.compute.device.torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("ddsfl.compute.device.torch.version.cuda", None)
    places = {"SET": scenes / "list.csv", "OUT": tmp_path / "o"}
    arguments = [places.get(word, word) for word in arguments]
    _, _, err = ddsfl(*arguments)
    assert err.count("A GPU was found, but this torch") == 1
    assert worked
    _, _, err = ddsfl(*arguments, "--quiet")
    assert "GPU" not in err
    worked.clear()
    code, _, err = ddsfl(*arguments, "--device", "cuda")
    assert (code, worked) == (1, [])
    assert err.startswith("ddsfl: --device cuda cannot be used: this torch")

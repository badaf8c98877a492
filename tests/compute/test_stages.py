import numpy as np
import pytest

from ddsfl.compute.stages import Stages, fingerprint
from tests.support.steps import Step, run


def test_stored_results_are_found_again(tmp_path):
    step = Step(x=np.arange(6).reshape(2, 3), y=np.array([0.5], dtype=np.float32))
    reports = []
    first, [before] = run(tmp_path / "new" / "folder", step, report=lambda *r: reports.append(r))
    second, [after] = run(tmp_path / "new" / "folder", step, report=lambda *r: reports.append(r))
    assert step.calls == 1
    assert reports == [("first", False), ("first", True)]
    assert list(before) == ["x", "y"]
    assert set(after) == {"x", "y"}
    for name, array in step.arrays.items():
        np.testing.assert_array_equal(after[name], array)
        assert after[name].dtype == array.dtype
    assert second.seconds == first.seconds


def test_without_a_folder_nothing_is_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    step = Step(x=np.zeros(1))
    run(None, step)
    run(None, step)
    assert step.calls == 2
    assert list(tmp_path.iterdir()) == []


def test_arrays_that_are_views_are_stored_as_they_look(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    run(tmp_path, Step(x=array.T[::2]))
    _, [after] = run(tmp_path, Step())
    np.testing.assert_array_equal(after["x"], array.T[::2])


@pytest.mark.parametrize("key", ["others", None, {"settings": 1}])
def test_another_key_is_ignored(tmp_path, key):
    run(tmp_path, Step(x=np.zeros(1)))
    other = Step(x=np.ones(1))
    _, [arrays] = run(tmp_path, other, key=key)
    assert other.calls == 1
    assert arrays["x"].tolist() == [1.0]


def test_runs_that_depend_on_the_same_share_a_step_and_keep_the_others_apart(tmp_path):
    """Two settings in one folder: only the last step depends on the setting that differs."""

    def run_for(setting):
        step = Step(x=np.array([setting]))
        stages = Stages(tmp_path, lambda name: "pixels" if name == "first" else ["pixels", setting])
        stored = [stages.is_stored(name) for name in ("first", "last")]
        return stored, [int(stages.run(name, step)["x"][0]) for name in ("first", "last")]

    assert run_for(1) == ([False, False], [1, 1])
    assert run_for(2) == ([True, False], [1, 2])
    assert run_for(1) == ([True, True], [1, 1])
    assert run_for(2) == ([True, True], [1, 2])


def test_results_of_earlier_steps_survive_a_failing_one(tmp_path):
    step = Step(x=np.zeros(1))

    def fail():
        raise RuntimeError("interrupted")

    stages = Stages(tmp_path, "settings")
    stages.run("first", step)
    with pytest.raises(RuntimeError, match="interrupted"):
        stages.run("second", fail)
    _, results = run(tmp_path, step, names=("first", "second"))
    assert step.calls == 2
    assert len(results) == 2


def test_names_must_differ():
    stages = Stages()
    stages.run("first", Step())
    with pytest.raises(ValueError, match="'first' already ran"):
        stages.run("first", Step())


def test_names_with_slashes_stay_within_the_folder(tmp_path):
    step = Step(x=np.zeros(1))
    run(tmp_path, step, names=("layer/1",))
    run(tmp_path, step, names=("layer/1",))
    assert step.calls == 1
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("layer.1.")


def test_fingerprint_tells_values_shapes_and_types_apart():
    array = np.arange(6)
    different = [
        fingerprint(array),
        fingerprint(array.reshape(2, 3)),
        fingerprint(array.reshape(3, 2)),
        fingerprint(array.astype(np.float64)),
        fingerprint(array[::-1]),
        fingerprint(1),
        fingerprint("1"),
        fingerprint([1, 2]),
        fingerprint({"a": 1}),
        fingerprint(None),
    ]
    assert len(set(different)) == len(different)
    assert fingerprint(array[::-1]) == fingerprint(array[::-1].copy())
    assert fingerprint(1, "x") == fingerprint(1, "x")
    assert fingerprint(1, "x") != fingerprint("x", 1)

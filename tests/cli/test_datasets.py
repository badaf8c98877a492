"""`ddsfl datasets` as people run it."""

import hashlib
import io
import zipfile
from dataclasses import replace
from functools import partial

import pytest

from ddsfl.datasets.catalogue import DATASETS, RemoteFile
from tests.support.server import serving


@pytest.fixture
def datasets(ddsfl):
    return partial(ddsfl, "datasets")


@pytest.fixture
def server(monkeypatch):
    """Scene 15 with two small classes, served from this machine; and the same without a digest."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in ("MITcoast/1.jpg", "PARoffice/1.jpg", "PARoffice/2.jpg"):
            archive.writestr(name, b"x")
    with serving(stream.getvalue()) as scripted:
        digest = "md5:" + hashlib.md5(scripted.body).hexdigest()
        file = RemoteFile("scenes.zip", (scripted.address,), digest)
        scenes = replace(DATASETS["scene15"], files=(file,), classes={"Coast": 1, "Office": 2})
        sets = {**DATASETS, "scene15": scenes, "plain": replace(scenes, files=(replace(file, digest=None),))}
        monkeypatch.setattr("ddsfl.datasets.catalogue.DATASETS", sets)
        monkeypatch.setattr("ddsfl.datasets.fetch.time.sleep", lambda _: None)
        yield scripted


def test_list_shows_every_set_with_its_home_and_licence(datasets, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = datasets("list")
    assert (code, err) == (0, "")
    for name, one in DATASETS.items():
        assert name in out
        assert one.home in out
        assert one.licence in out


def test_list_cuts_no_address_on_a_narrow_screen(datasets, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = datasets("list")
    assert "…" not in out


def test_get_fetches_unpacks_and_checks(datasets, server, tmp_path):
    server.script = ["break"]
    code, out, err = datasets("get", "scene15", "--to", tmp_path / "new" / "scenes")
    assert (code, out) == (0, "")
    assert "licence:" in err
    assert "scenes.zip: " in err
    assert "scene15 is complete" in err
    assert "SHA-256" not in err
    assert (tmp_path / "new" / "scenes" / "PARoffice" / "2.jpg").exists()
    assert datasets("get", "scene15", "--to", tmp_path / "new" / "scenes", "--quiet") == (0, "", "")
    assert len(server.requests) == 2


def test_get_prints_the_digest_that_nobody_published(datasets, server, tmp_path):
    code, _, err = datasets("get", "plain", "--to", tmp_path)
    assert code == 0
    assert (
        f"no digest of scenes.zip is published; found SHA-256 {hashlib.sha256(server.body).hexdigest()}"
        in err
    )


def test_get_ends_with_a_sentence_when_the_file_does_not_come(datasets, server, tmp_path):
    server.script = [404]
    code, _, err = datasets("get", "scene15", "--to", tmp_path, "--quiet")
    assert code == 1
    assert err == f"ddsfl: scenes.zip could not be fetched. {server.address}: HTTP 404 (Not Found).\n"


def test_get_says_which_file_to_put_where(datasets, tmp_path):
    code, _, err = datasets("get", "sports8", "--to", tmp_path)
    assert code == 1
    assert f"cannot be fetched: put it into {tmp_path} as CLASS/*.jpg" in err


def test_check_lists_what_is_missing_with_exit_code_1(datasets, server, tmp_path):
    datasets("get", "scene15", "--to", tmp_path)
    assert datasets("check", "scene15", tmp_path) == (0, "", f"{tmp_path}: scene15 is complete\n")
    assert datasets("check", "scene15", tmp_path, "--quiet") == (0, "", "")
    (tmp_path / "PARoffice" / "1.jpg").unlink()
    (tmp_path / "MITcoast" / "1.jpg").unlink()
    code, out, err = datasets("check", "scene15", tmp_path, "--quiet")
    assert (code, out) == (1, "")
    assert "only one label" in err
    (tmp_path / "MITcoast" / "1.jpg").write_bytes(b"x")
    assert "class 'Office' has 1 images; expected 2." in datasets("check", "scene15", tmp_path)[2]


def test_unknown_sets_are_named(datasets, tmp_path):
    for arguments in (("get", "scene16", "--to", tmp_path), ("check", "scene16", tmp_path)):
        code, _, err = datasets(*arguments)
        assert code == 1
        assert "ddsfl: there is no data set 'scene16'; expected one of scene15" in err

"""What tests of image sets share: a folder with class folders and everything that may lie in them."""

import pytest

from tests.support.pictures import put


@pytest.fixture
def sets(tmp_path):
    put(
        tmp_path,
        "forest/b.png",
        "forest/a.JPG",
        "forest/deep/er/c.jpeg",
        "Küche 厨房/x.png",
        "Küche 厨房/ü.png",
    )
    (tmp_path / "forest" / "notes.txt").write_text("not an image")
    (tmp_path / "forest" / ".hidden.png").write_text("")
    (tmp_path / ".git").mkdir()
    return tmp_path

import pytest
from matplotlib import font_manager

from ddsfl.report.plots import names as module
from ddsfl.report.plots.names import drawn_names, shortened


def test_dollar_signs_are_escaped_so_that_nothing_is_a_formula():
    assert drawn_names(["a $x$ b", r"\$", "plain"]).texts == [r"a \$x\$ b", r"\\$", "plain"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two\nlines\tand", "two lines and"),
        ("joined\u200d\ufe0f", "joined"),
        ("caf\udce9", r"class 1 (caf\xe9)"),
        ("a\ud800b", r"a\ud800b"),
        ("\udd00\udfff", r"\udd00\udfff"),
        ("\ud83d\udcff", r"class 1 (\ud83d\xff)"),
        ("K\udcc3\udcbcche", "Küche"),
        ("海", r"class 1 (\u6d77)"),
        ("海滩海滩", r"class 1 (\u6d77\u6ee9…)"),
        ("𝍠", r"class 1 (\U0001d360)"),
    ],
)
def test_what_cannot_be_drawn_is_replaced(monkeypatch, name, expected):
    monkeypatch.setattr(module, "_regular_fonts", lambda: ())  # whatever is installed
    module._fonts_for.cache_clear()
    assert drawn_names([name], longest=24).texts == [expected]
    module._fonts_for.cache_clear()


def test_the_number_is_the_place_of_the_class(monkeypatch):
    monkeypatch.setattr(module, "_regular_fonts", lambda: ())
    module._fonts_for.cache_clear()
    assert drawn_names(["a", "b", "海"]).texts[2].startswith("class 3 ")
    module._fonts_for.cache_clear()


def test_an_installed_font_with_the_characters_is_used():
    own = module._covered(font_manager.findfont("DejaVu Sans"))
    others = {family: module._covered(path) - own for family, path in module._regular_fonts()}
    characters = max(others.values(), key=len)
    special = sorted(c for c in characters if c.isprintable() and ord(c) > 127)
    if not special:
        pytest.skip("no font has more characters than DejaVu Sans")
    texts, fonts = drawn_names([special[0] + "a"])
    assert texts == [special[0] + "a"]
    assert fonts[0] == "DejaVu Sans"
    assert any(special[0] in others[font] for font in fonts[1:])
    assert drawn_names(["plain"]).fonts == ["DejaVu Sans"]
    assert not any(family.startswith("Last Resort") for family in others)


def test_a_font_that_cannot_be_read_has_no_characters(tmp_path):
    (tmp_path / "a.ttf").write_bytes(b"not a font")
    assert module._covered(str(tmp_path / "a.ttf")) == frozenset()


@pytest.mark.parametrize("longest", [5, 6, 28])
def test_long_names_keep_their_ends(longest):
    name = "begin" + 50 * "-" + "end"
    short = shortened(name, longest)
    assert len(short) == longest
    start, end = short.split("…")
    assert name.startswith(start)
    assert name.endswith(end)
    assert shortened("x" * longest, longest) == "x" * longest

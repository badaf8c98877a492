"""Names that people take for the same."""

import pytest

from ddsfl.images.lookalikes import look_alikes


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Forest", "forest"),
        ("forest ", "forest"),
        ("\tforest", "forest"),
        ("open country", "open  country"),
        ("open\u00a0country", "open country"),
        ("for\u200best", "forest"),
        ("\ufeffforest", "forest"),
        ("for\u00adest", "forest"),
        ("Küche", "Ku\u0308che"),  # NFC and NFD
        ("\ufb01eld", "field"),  # a ligature: NFKC
        ("STRASSE", "straße"),
        ("\u01f0", "J\u030c"),  # case folding undoes the normal form
    ],
)
def test_look_alikes(one, two):
    assert one != two
    assert look_alikes([one, two, "coast", one]) == [tuple(sorted([one, two]))]


def test_different_names_do_not_look_alike():
    assert look_alikes(["forest", "forests", "for est", "fo-rest", "Kuche", "Küche", "1", "01", ""]) == []

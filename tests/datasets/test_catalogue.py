import tarfile

import pytest

from ddsfl.datasets.catalogue import DATASETS, dataset
from ddsfl.datasets.protocols import PROTOCOLS
from ddsfl.datasets.voc import VOC_CLASSES


def test_sets_have_the_sizes_that_their_makers_give():
    sizes = {name: (one.n_images, len(one.classes)) for name, one in DATASETS.items()}
    assert sizes == {
        "scene15": (4485, 15),
        "uiuc-sports": (1579, 8),
        "indoor67": (15620, 67),
        "voc2012": (11540, 20),
        "indoor10": (998, 10),
        "sports8": (1191, 8),
        "objects102": (4009, 102),
        "steel6": (900, 6),
        "folder": (None, 0),
    }
    assert tuple(DATASETS["voc2012"].classes) == VOC_CLASSES
    lists = DATASETS["voc2012"].lists
    assert lists["train"] + lists["val"] == lists["trainval"]
    assert set(DATASETS["indoor10"].classes) < set(DATASETS["indoor67"].classes)


def test_each_set_says_where_it_comes_from_and_how_it_may_be_used():
    for name, one in DATASETS.items():
        assert one.name == name
        assert one.licence
        assert one.layout
        for file in one.files:
            assert all(address.startswith(("http://", "https://")) for address in file.addresses)
            assert one.home.startswith("http")
            if file.digest is not None:
                kind, _, value = file.digest.partition(":")
                assert len(bytes.fromhex(value)) == {"md5": 16, "sha1": 20}[kind]


def test_every_set_but_the_free_one_has_a_protocol():
    assert {one.dataset for one in PROTOCOLS.values()} == set(DATASETS) - {"folder"}


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("MITtallbuilding", "TallBuilding"),
        ("CALsuburb", "Suburb"),
        ("PARoffice", "Office"),
        ("living_room", "LivingRoom"),
        ("Store", "Store"),
        ("MIT", "MIT"),
        ("XXstore", "XXstore"),
    ],
)
def test_class_folders_of_other_copies_are_recognised(folder, name):
    assert dataset("scene15").class_of(folder) == name


def test_unknown_sets_are_named():
    with pytest.raises(ValueError, match="no data set 'scene16'; expected one of scene15, uiuc-sports"):
        dataset("scene16")


@pytest.mark.data
def test_counts_a_class_are_those_of_the_files(shared):
    """The archives are only listed, not unpacked, which is fast."""
    for name in ("scene15", "indoor10", "sports8", "objects102", "steel6"):
        counts: dict[str, int] = {}
        for archive in sorted((shared / "data").glob(f"{name}*.tar")):
            with tarfile.open(archive) as opened:
                for member in opened:
                    if member.isfile() and member.name.endswith(".jpg"):
                        folder = member.name.split("/")[-2]
                        counts[folder] = counts.get(folder, 0) + 1
        assert counts == dict(DATASETS[name].classes)

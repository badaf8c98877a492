"""The image sets of the experiments: source, layout on disk and contents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set.

    Attributes
    ----------
    name : file name in the folder of the set.
    addresses : URLs, tried in order; if empty, the user has to provide the file.
    digest : "md5:..." or "sha1:..." of its bytes; None if unknown. The SHA-256 of the fetched file is
        recorded next to it.
    needed : whether the set is incomplete without it.
    max_bytes : a larger file is not fetched; well above its true size.
    """

    name: str
    addresses: tuple[str, ...] = ()
    digest: str | None = None
    needed: bool = True
    max_bytes: int = 2**32


@dataclass(frozen=True)
class Dataset:
    """One image set.

    Attributes
    ----------
    home : web page of its authors.
    licence : their terms of use.
    layout : description of its layout on disk.
    files : files that `ddsfl datasets get` fetches.
    places : possible locations of the class folders within the folder of the set, the likeliest first.
    classes : number of images per class; empty if any class folders are accepted.
    prefixes : prefixes that some copies of the set add to the names of class folders.
    lists : number of entries in each official list.
    """

    name: str
    title: str
    home: str
    licence: str
    layout: str
    files: tuple[RemoteFile, ...] = ()
    places: tuple[str, ...] = (".",)
    classes: Mapping[str, int] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ()
    lists: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_images(self) -> int | None:
        """Number of images (VOC: in the list trainval); None if any class folders are accepted."""
        return self.lists.get("trainval", sum(self.classes.values()) or None)

    def class_of(self, folder_name: str) -> str:
        """Return the set's class name for the class folder with this name.

        >>> DATASETS["scene15"].class_of("MITinsidecity"), DATASETS["scene15"].class_of("InsideCity")
        ('InsideCity', 'InsideCity')
        """
        plain = _plain(folder_name)
        for prefix in ("", *map(str.lower, self.prefixes)):
            for name in self.classes:
                if plain == prefix + _plain(name):
                    return name
        return folder_name


#: Images per class of each set. UIUC Sports and MIT Indoor 67: from their web pages. VOC: images of
#: trainval that show the class, without difficult ones, from the statistics of the challenge. All others:
#: counted.
_CLASSES = json.loads((Path(__file__).parent / "class_counts.json").read_text())

_SCENE15_ZIP = "http://www-cvr.ai.uiuc.edu/ponce_grp/data/scene_categories/scene_categories.zip"
_RESEARCH = "no licence stated; the images belong to their owners, so use them for research only"

#: All sets by name. The digests are those that public code uses to verify its downloads.
DATASETS: Mapping[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="scene15",
            title="Scene 15 (Lazebnik, Schmid, Ponce 2006)",
            home="http://www-cvr.ai.uiuc.edu/ponce_grp/data/",
            licence=_RESEARCH,
            layout="CLASS/image_0001.jpg, 15 class folders",
            files=(
                RemoteFile(
                    "scene_categories.zip",
                    # The second is the copy in the Internet Archive, in case the first is gone.
                    (_SCENE15_ZIP, f"https://web.archive.org/web/20070829035029/{_SCENE15_ZIP}"),
                    "md5:58828019197b2ad0a7efb472e7a85c2a",
                    max_bytes=2**29,
                ),
            ),
            places=(".", "scene_categories", "scene15"),
            classes=_CLASSES["scene15"],
            prefixes=("CAL", "MIT", "PAR"),
        ),
        Dataset(
            name="uiuc-sports",
            title="UIUC Sports, 8 events (Li, Fei-Fei 2007)",
            home="http://vision.stanford.edu/lijiali/event_dataset/",
            licence=_RESEARCH,
            layout="event_img/CLASS/*.jpg, 8 class folders",
            files=(
                RemoteFile(
                    "event_dataset.rar",
                    ("http://vision.stanford.edu/lijiali/event_dataset/event_dataset.rar",),
                ),
            ),
            places=("event_img", "event_dataset/event_img", "."),
            classes=_CLASSES["uiuc-sports"],
        ),
        Dataset(
            name="indoor67",
            title="MIT Indoor 67 (Quattoni, Torralba 2009)",
            home="https://web.mit.edu/torralba/www/indoor.html",
            licence="for research purposes only, according to its page",
            layout="Images/CLASS/*.jpg, 67 class folders; TrainImages.txt and TestImages.txt next to Images",
            files=(
                RemoteFile(
                    "indoorCVPR_09.tar",
                    ("http://groups.csail.mit.edu/vision/LabelMe/NewImages/indoorCVPR_09.tar",),
                    "sha1:0b252516e746ba428b96af408d2e8162d9b08ac5",
                ),
                RemoteFile(
                    "TrainImages.txt", ("https://web.mit.edu/torralba/www/TrainImages.txt",), max_bytes=2**20
                ),
                RemoteFile(
                    "TestImages.txt", ("https://web.mit.edu/torralba/www/TestImages.txt",), max_bytes=2**20
                ),
            ),
            places=("Images", "indoorCVPR_09/Images", "."),
            classes=_CLASSES["indoor67"],
            lists={"TrainImages.txt": 5360, "TestImages.txt": 1340},
        ),
        Dataset(
            name="voc2012",
            title="PASCAL VOC 2012, classification",
            home="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
            licence="images from Flickr, under its terms of use",
            layout="VOCdevkit/VOC2012/JPEGImages/ID.jpg, .../ImageSets/Main/CLASS_SUBSET.txt",
            files=(
                RemoteFile(
                    "VOCtrainval_11-May-2012.tar",
                    ("http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",),
                    "md5:6cd6e144f989b92b3379bac3b3de84fd",
                ),
                # The evaluation server provides it to registered users.
                RemoteFile("VOC2012test.tar", needed=False),
            ),
            classes=_CLASSES["voc2012"],
            lists={"train": 5717, "val": 5823, "trainval": 11540, "test": 10991},
        ),
        Dataset(
            name="indoor10",
            title="ten home classes of MIT Indoor 67 (a stand-in, not to be reported as MIT Indoor 67)",
            home="https://web.mit.edu/torralba/www/indoor.html",
            licence="for research purposes only, according to its page",
            layout="Images/CLASS/*.jpg, 10 class folders; TrainImages.txt and TestImages.txt next to Images",
            places=("Images", "."),
            classes=_CLASSES["indoor10"],
            lists={"TrainImages.txt": 806, "TestImages.txt": 192},
        ),
        Dataset(
            name="sports8",
            title="eight sports in the form of UIUC Sports (a stand-in: other images, other scores)",
            home="",
            licence=_RESEARCH,
            layout="CLASS/*.jpg, 8 class folders",
            classes=_CLASSES["sports8"],
        ),
        Dataset(
            name="objects102",
            title="objects: a sample of Caltech-101 (not to be reported as Caltech-101)",
            home="https://data.caltech.edu/records/mzrjq-6wc02",
            licence=_RESEARCH,
            layout="CLASS/*.jpg, 102 class folders",
            classes=_CLASSES["objects102"],
        ),
        Dataset(
            name="steel6",
            title="surface defects of hot-rolled steel: a sample of NEU",
            home="",
            licence=_RESEARCH,
            layout="CLASS/*.jpg, 6 class folders",
            classes=_CLASSES["steel6"],
        ),
        Dataset(
            name="folder",
            title="any folder of class folders",
            home="",
            licence="yours",
            layout="CLASS/*.jpg, one folder per class, any names",
        ),
    )
}


def dataset(name: str) -> Dataset:
    """Return the set with this name.

    >>> dataset("scene15").n_images, len(dataset("indoor67").classes)
    (4485, 67)
    """
    if name not in DATASETS:
        raise ValueError(f"there is no data set {name!r}; expected one of {', '.join(DATASETS)}.")
    return DATASETS[name]


def _plain(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign.isalnum())

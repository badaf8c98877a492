"""The image sets of the experiments: source, layout on disk and contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    """

    name: str
    addresses: tuple[str, ...] = ()
    digest: str | None = None
    needed: bool = True


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


#: Images per class, counted in the set itself.
_SCENE15 = {
    "Bedroom": 216, "Coast": 360, "Forest": 328, "Highway": 260, "Industrial": 311, "InsideCity": 308,
    "Kitchen": 210, "LivingRoom": 289, "Mountain": 374, "Office": 215, "OpenCountry": 410, "Store": 315,
    "Street": 292, "Suburb": 241, "TallBuilding": 356,
}  # fmt: skip
#: According to its web page.
_UIUC_SPORTS = {
    "badminton": 200, "bocce": 137, "croquet": 236, "polo": 182, "RockClimbing": 194, "rowing": 250,
    "sailing": 190, "snowboarding": 190,
}  # fmt: skip
#: 15,620 in total, according to its web page.
_INDOOR67 = {
    "airport_inside": 608, "artstudio": 140, "auditorium": 176, "bakery": 405, "bar": 604, "bathroom": 197,
    "bedroom": 662, "bookstore": 380, "bowling": 213, "buffet": 111, "casino": 515, "children_room": 112,
    "church_inside": 180, "classroom": 113, "cloister": 120, "closet": 135, "clothingstore": 106,
    "computerroom": 114, "concert_hall": 103, "corridor": 346, "deli": 258, "dentaloffice": 131,
    "dining_room": 274, "elevator": 101, "fastfood_restaurant": 116, "florist": 103, "gameroom": 127,
    "garage": 103, "greenhouse": 101, "grocerystore": 213, "gym": 231, "hairsalon": 239, "hospitalroom": 101,
    "inside_bus": 102, "inside_subway": 457, "jewelleryshop": 157, "kindergarden": 127, "kitchen": 734,
    "laboratorywet": 125, "laundromat": 276, "library": 107, "livingroom": 706, "lobby": 101,
    "locker_room": 249, "mall": 176, "meeting_room": 233, "movietheater": 175, "museum": 168, "nursery": 144,
    "office": 109, "operating_room": 135, "pantry": 384, "poolinside": 174, "prisoncell": 103,
    "restaurant": 513, "restaurant_kitchen": 107, "shoeshop": 116, "stairscase": 155, "studiomusic": 108,
    "subway": 539, "toystore": 347, "trainstation": 153, "tv_studio": 166, "videostore": 110,
    "waitingroom": 151, "warehouse": 506, "winecellar": 269,
}  # fmt: skip
#: Images of trainval that show each class, without difficult ones, from the challenge's statistics.
_VOC2012 = {
    "aeroplane": 670, "bicycle": 552, "bird": 765, "boat": 508, "bottle": 706, "bus": 421, "car": 1161,
    "cat": 1080, "chair": 1119, "cow": 303, "diningtable": 538, "dog": 1286, "horse": 482, "motorbike": 526,
    "person": 4087, "pottedplant": 527, "sheep": 325, "sofa": 507, "train": 544, "tvmonitor": 575,
}  # fmt: skip
#: Reduced from MIT Indoor 67; the lists keep the entries of these classes.
_INDOOR10 = {
    "bathroom": 100, "bedroom": 99, "children_room": 100, "closet": 100, "corridor": 100,
    "dining_room": 100, "garage": 99, "kitchen": 100, "livingroom": 100, "stairscase": 100,
}  # fmt: skip
_SPORTS8 = {
    "croquet": 146, "polo": 167, "rock_climbing": 151, "rowing": 153, "sailing": 154, "snowboarding": 127,
    "tennis": 141, "volleyball": 152,
}  # fmt: skip
#: A sample of Caltech-101 with its background class, at most 40 images per class.
_OBJECTS = """
    BACKGROUND_Google Faces Faces_easy Leopards Motorbikes accordion airplanes anchor ant barrel bass
    beaver binocular bonsai brain brontosaurus buddha butterfly camera cannon car_side ceiling_fan
    cellphone chair chandelier cougar_body cougar_face crab crayfish crocodile crocodile_head cup
    dalmatian dollar_bill dolphin dragonfly electric_guitar elephant emu euphonium ewer ferry flamingo
    flamingo_head garfield gerenuk gramophone grand_piano hawksbill headphone hedgehog helicopter ibis
    inline_skate joshua_tree kangaroo ketch lamp laptop llama lobster lotus mandolin mayfly menorah
    metronome minaret nautilus octopus okapi pagoda panda pigeon pizza platypus pyramid revolver rhino
    rooster saxophone schooner scissors scorpion sea_horse snoopy soccer_ball stapler starfish
    stegosaurus stop_sign strawberry sunflower tick trilobite umbrella watch water_lilly wheelchair
    wild_cat windsor_chair wrench yin_yang
"""
_OBJECTS102 = dict.fromkeys(_OBJECTS.split(), 40) | {
    "binocular": 33, "garfield": 34, "gerenuk": 34, "inline_skate": 31, "metronome": 32, "octopus": 35,
    "okapi": 39, "panda": 38, "platypus": 34, "scissors": 39, "snoopy": 35, "strawberry": 35, "water_lilly":
    37, "wild_cat": 34, "wrench": 39,
}  # fmt: skip
#: A sample of NEU, 150 images per defect.
_STEEL6 = dict.fromkeys(
    ("crazing", "inclusion", "patches", "pitted_surface", "rolled-in_scale", "scratches"), 150
)

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
                ),
            ),
            places=(".", "scene_categories", "scene15"),
            classes=_SCENE15,
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
            classes=_UIUC_SPORTS,
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
                RemoteFile("TrainImages.txt", ("https://web.mit.edu/torralba/www/TrainImages.txt",)),
                RemoteFile("TestImages.txt", ("https://web.mit.edu/torralba/www/TestImages.txt",)),
            ),
            places=("Images", "indoorCVPR_09/Images", "."),
            classes=_INDOOR67,
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
            classes=_VOC2012,
            lists={"train": 5717, "val": 5823, "trainval": 11540, "test": 10991},
        ),
        Dataset(
            name="indoor10",
            title="ten home classes of MIT Indoor 67 (a stand-in, not to be reported as MIT Indoor 67)",
            home="https://web.mit.edu/torralba/www/indoor.html",
            licence="for research purposes only, according to its page",
            layout="Images/CLASS/*.jpg, 10 class folders; TrainImages.txt and TestImages.txt next to Images",
            places=("Images", "."),
            classes=_INDOOR10,
            lists={"TrainImages.txt": 806, "TestImages.txt": 192},
        ),
        Dataset(
            name="sports8",
            title="eight sports in the form of UIUC Sports (a stand-in: other images, other scores)",
            home="",
            licence=_RESEARCH,
            layout="CLASS/*.jpg, 8 class folders",
            classes=_SPORTS8,
        ),
        Dataset(
            name="objects102",
            title="objects: a sample of Caltech-101 (not to be reported as Caltech-101)",
            home="https://data.caltech.edu/records/mzrjq-6wc02",
            licence=_RESEARCH,
            layout="CLASS/*.jpg, 102 class folders",
            classes=_OBJECTS102,
        ),
        Dataset(
            name="steel6",
            title="surface defects of hot-rolled steel: a sample of NEU",
            home="",
            licence=_RESEARCH,
            layout="CLASS/*.jpg, 6 class folders",
            classes=_STEEL6,
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

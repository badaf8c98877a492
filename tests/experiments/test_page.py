import re

import pytest

from ddsfl.experiments.page import END, START, write_results
from ddsfl.experiments.results import read_cells
from tests.support.made_cells import leave_cells


@pytest.fixture
def cells(tmp_path):
    folder = tmp_path / "cells"
    leave_cells(folder, "sift", [0.8123, 0.8345])
    leave_cells(folder, "ddsfl-3layers", [0.8456, 0.8567])
    leave_cells(folder, "alexnet_pool5", [0.8678])
    leave_cells(folder, "ddsfl-3layers:d128", [0.7789])
    leave_cells(folder, "ddsfl-3layers+alexnet_pool5", [0.9234])
    leave_cells(folder, "sift", [0.5432], dataset="voc2012")
    return folder


def test_tables_with_something_to_compare_are_written(cells, tmp_path):
    files = write_results(cells, tmp_path / "docs")
    text = (tmp_path / "docs" / "results.md").read_text()
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == [
        "Features",
        "Size of the filter bank",
        "Other methods",
        "DDSFL and networks, class by class",
        "Preset best",
        "What is not reproduced here",
    ]
    assert [file.name for file in files] == ["results.md", "bank-size-scene15.png"]
    assert all(file.is_file() for file in files)
    assert "![Score over the number of filters, scene15](bank-size-scene15.png)" in text
    assert "ddsfl-3layers is better on 0 of 2 classes, alexnet_pool5 on 2 (1 split)." in text
    assert "filters-" not in text
    assert "All our numbers come\nfrom the files in `results/cells/`." in text
    for gone in ("fc6", "UIUC Sports", "MIT Indoor 67", "PASCAL VOC 2012"):
        assert gone in text.partition("## What is not")[2]


def test_layers_of_one_size_give_no_figure_of_sizes(cells, tmp_path):
    (cells / "scene15" / "ddsfl-3layers_d128.random1.json").unlink()
    leave_cells(cells, "ddsfl-2layers", [0.8])
    assert [file.name for file in write_results(cells, tmp_path / "docs")] == ["results.md"]
    assert "Size of the filter bank" not in (tmp_path / "docs" / "results.md").read_text()


def test_all_our_numbers_come_from_cells(cells, tmp_path):
    write_results(cells, tmp_path)
    text = (tmp_path / "results.md").read_text()
    means = {float(mean) for mean in re.findall(r"(\d+\.\d\d)(?: ± \d+\.\d\d)? \(\d+(?: of 5)?\)", text)}
    from_cells = set()
    for by_split in read_cells(cells, "scene15").values():
        scores = [100 * cell["mean_class_accuracy"] for cell in by_split.values()]
        from_cells.add(round(sum(scores) / len(scores), 2))
    assert means == from_cells


def test_what_was_written_by_hand_stays(cells, tmp_path):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nBy hand: 84.03.\n")
    write_results(cells, tmp_path)
    first = page.read_text()
    assert first.startswith(f"# Results\n\nBy hand: 84.03.\n\n{START}\n")
    assert first.endswith(f"{END}\n")
    page.write_text(first + "\nAlso by hand.\n")
    leave_cells(cells, "lbp", [0.7])
    write_results(cells, tmp_path)
    second = page.read_text()
    assert second.startswith(f"# Results\n\nBy hand: 84.03.\n\n{START}\n")
    assert second.endswith(f"{END}\n\nAlso by hand.\n")
    assert second.count(START) == 1
    assert "70.00 (1 of 5)" in second
    assert "70.00 (1 of 5)" not in first
    page.write_text(second.replace(END, ""))
    with pytest.raises(ValueError, match=r"results.md has the line"):
        write_results(cells, tmp_path)


def test_filters_that_were_drawn_are_shown(cells, tmp_path):
    (tmp_path / "filters-scene15.png").write_bytes(b"x")
    write_results(cells, tmp_path)
    assert "![RICA and DDSFL](filters-scene15.png)" in (tmp_path / "results.md").read_text()

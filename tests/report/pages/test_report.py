"""The page of a report as text: every number of the view, every name, escaping, and what may be missing."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from ddsfl.report.pages.report import report_page
from ddsfl.report.pages.report_view import Facts, Measure, Mistake, Report
from tests.support.made_report import (
    NAMES,
    SCRIPT,
    heat,
    made_comparison,
    made_learned,
    made_multilabel,
    made_report,
    made_tested,
    picture,
)
from tests.support.reader import Reader, sections

NONE = "\N{EN DASH}"


def values(source):
    """All exact numbers of a piece of a page, in its order."""
    return [float(value) for value in re.findall(r'data-value="([^"]*)"', source)]


def headline(measure):
    return [measure.mean, *([] if measure.spread is None else [measure.spread])]


def expected(report):
    """The numbers of each section, straight from the view."""
    tested, learned, comparison = report.tested, report.learned, report.comparison
    counts = tested.confusion
    wrong = counts * (1 - np.eye(len(counts), dtype=int))
    worst = np.unravel_index(wrong.argmax(), wrong.shape)
    result = [*headline(tested.measures[0]), len(tested.splits)]
    result += [number for measure in tested.measures[1:] for number in headline(measure)]
    result += [len(tested.mistakes), tested.images, wrong.max(), counts[worst[0]].sum()]
    result += [measure.values[at] for at in range(len(tested.splits)) for measure in tested.measures]
    pairs = [
        (-count / counts[row].sum(), -count, row, column)
        for (row, column), count in np.ndenumerate(wrong)
        if count
    ]
    confusion = list(counts.ravel())
    for part, count, row, _ in sorted(pairs):
        confusion += [-count, counts[row].sum(), -part]
    bins = tested.calibration.bins
    images = sum(one.images for one in bins)
    fullest = max(bins, key=lambda one: one.images)
    means = [
        sum(one.images * getattr(one, name) for one in bins if one.images) / images
        for name in ("probability", "right")
    ]
    return {
        "result": result,
        "comparison": compared(comparison),
        "found": [found.count for found in report.found],
        "mistakes": [n for one in tested.mistakes for n in (one.sure, one.true_probability)],
        "confusion": confusion,
        "classes": [n for row in tested.classes for n in (row.images, row.recall, row.precision, row.f1)],
        "calibration": [
            *(fullest.right, fullest.images, *means, tested.calibration.error),
            *(n for one in bins for n in (one.low, one.high, one.images, one.probability, one.right)),
        ],
        "blocks": [
            learned.score,
            *(0.421, 0.8017, 0.8017 - 0.8371, 0.379, 0.8402, 0.8402 - 0.8371, 0.2),
        ],
        "facts": [seconds for _, seconds in report.times],
        "left-out": [],
    }


def compared(comparison):
    numbers = []
    for one, other in comparison.measures:
        numbers += [*headline(one), *headline(other), other.mean - one.mean]
    numbers += [comparison.p, comparison.only_first, comparison.only_second, comparison.both_right]
    numbers += [comparison.only_first, comparison.only_second, comparison.both_wrong]
    by_gain = sorted(comparison.classes, key=lambda rows: rows[0].recall - rows[1].recall)
    for one, other in by_gain:
        numbers += [one.images, one.recall, other.recall, other.recall - one.recall]
    for start in (0, 3, 6):  # three images of each kind, those without a picture last
        kind = comparison.disagreements[start : start + 3]
        numbers.append(3)
        numbers += [
            probability
            for one in sorted(kind, key=lambda one: one.picture is None)
            for probability in one.sure
            if probability is not None
        ]
    return numbers


def test_every_number_of_the_view_is_on_the_page_and_no_other(full):
    report, page = full
    shown, wanted = sections(page), expected(report)
    assert set(shown) == {*wanted, "learned"}
    for name, numbers in wanted.items():
        np.testing.assert_allclose(values(shown[name]), np.array(numbers, float), rtol=1e-12, err_msg=name)


def test_every_filter_says_who_uses_it_and_where_it_fires_most(full):
    report, page = full
    source = sections(page)["learned"]
    for layer in report.learned.layers:
        assert f'data-value="{layer.n_filters}"' in source
        for first, last in zip(layer.curve.values[0], layer.curve.values[-1]):
            assert values(source).count(float(first)) >= 1 <= values(source).count(float(last))
    filters = [drawn for layer in report.learned.layers for drawn in layer.filters]
    items = re.findall(r'<li><button type="button" class="filter".*?</li>', source, flags=re.DOTALL)
    assert len(items) == len(filters)
    for drawn, item in zip(filters, items):
        read = Reader(item)
        count = len(drawn.classes)
        assert values(item)[0] == drawn.number
        assert f"Filter {drawn.number}" in read.text
        if count == len(NAMES):
            assert "used by all 8 classes" in read.text
        elif count:
            assert f"used by {count} class" in read.text
            assert all(
                name in read.text and name in read.named("filter")[0]["title"] for name in drawn.classes
            )
        assert all(patch.label in read.text for patch in drawn.patches)


def test_filters_are_in_groups_by_how_many_classes_use_them(full):
    report, page = full
    titles = re.findall(r'filter-title">(.*?)</p>', sections(page)["learned"])
    counts = [len(drawn.classes) for drawn in report.learned.layers[0].filters]
    sizes = [
        sum(low <= count <= high for count in counts)
        for low, high in ((8, 8), (5, 7), (2, 4), (1, 1), (0, 0))
    ]
    words = ("all 8 classes", "5 to 7 classes", "2 to 4 classes", "one class", "no class")
    wanted = [f"Used by {word} {size}" for word, size in zip(words, sizes)]
    assert [Reader(title).text for title in titles[: len(titles) // 2]] == wanted


def test_filters_that_are_not_chosen_by_class_have_no_groups():
    learned = made_learned(layers=1)
    layer = learned.layers[0]
    plain = replace(layer, filters=tuple(replace(one, classes=(), patches=()) for one in layer.filters))
    page = report_page(Report("", learned=replace(learned, layers=(plain,), sharing=None)))
    assert "Used by" not in page
    assert "Fires most" not in page
    assert len(Reader(page).named("filter")) == 40


def test_pairs_of_classes_and_what_is_not_known():
    source = sections(report_page(Report("", learned=made_learned())))["learned"]
    text = Reader(source).text
    assert "coast and forest 30 of 50 0 of 60" in text
    assert f"coast and {SCRIPT} {NONE} 4 of 61" in text


def test_all_wrong_file_names_are_on_the_page():
    report = made_report(pictures=5)
    source = sections(report_page(report))["mistakes"]
    parts = re.findall(r'class="folder"><bdi>(.*?)</bdi>.*?class="file"><bdi>(.*?)</bdi>', source)
    assert ["".join(name) for name in parts] == [mistake.name for mistake in report.tested.mistakes]
    assert len(Reader(source).named("card")) == 5


def test_the_most_common_confusion_is_named_in_a_sentence(full):
    report, page = full
    counts = report.tested.confusion * (1 - np.eye(8, dtype=int))
    true, taken = np.unravel_index(counts.argmax(), counts.shape)
    text = Reader(sections(page)["result"]).text
    assert f"{len(report.tested.mistakes)} of {report.tested.images} answers are wrong." in text
    images = report.tested.confusion[true].sum()
    assert f"{NAMES[true]} was taken for {NAMES[taken]}, {counts.max()} of {images} times." in text


def test_without_mistakes_there_is_nothing_to_look_at():
    tested = made_tested(n_splits=1)
    right = replace(tested, confusion=30 * np.eye(8, dtype=int), mistakes=())
    page = report_page(Report("", tested=right))
    text = Reader(page).text
    assert "None of 244 answers is wrong." in text
    assert "No class was taken for another." in text
    assert "mistakes" not in sections(page)
    assert "over" not in Reader(sections(page)["result"]).text.split("mean class accuracy")[1][:9]
    assert "±" not in text
    assert "Each split" not in text


def test_what_is_not_known_is_left_out():
    parts = sections(report_page(Report("Title", facts=(Facts("Settings", (("seed", "0"),)),))))
    assert list(parts) == ["facts"]
    assert "<dialog" not in parts["facts"]
    assert list(sections(report_page(Report("Nothing")))) == []
    only = sections(report_page(Report("", comparison=made_comparison())))
    assert list(only) == ["comparison"]
    uncalibrated = replace(made_tested(), calibration=None)
    assert "calibration" not in sections(report_page(Report("", tested=uncalibrated)))


def test_the_contents_are_the_sections(full):
    _, page = full
    links = re.findall(r'<li><a href="#([\w-]+)">', page.split("<main")[0])
    assert links == list(sections(page))


def test_answers_that_are_not_calibrated_show_a_margin():
    tested = made_tested()
    bare = [
        replace(one, sure=None, true_probability=None, surprise=n / 7)
        for n, one in enumerate(tested.mistakes)
    ]
    source = sections(report_page(Report("", tested=replace(tested, mistakes=tuple(bare)))))["mistakes"]
    assert values(source) == [mistake.surprise for mistake in bare]
    assert Reader(source).text.count("margin") == len(bare)
    assert " sure" not in Reader(source).text


def test_images_with_several_labels_or_none():
    report = made_multilabel()
    parts = sections(report_page(report))
    assert "confusion" not in parts
    text = Reader(parts["mistakes"]).text
    assert f"given person, {SCRIPT} true: person" in text
    assert "given person true: no label" in text
    assert "given no label true: person, dining table," in text
    tints = Reader(parts["mistakes"]).named("tint")
    assert (tints[0]["data-orange"], tints[0]["data-blue"]) == (f"for {SCRIPT}", f"against {SCRIPT}")
    assert (tints[1]["data-orange"], tints[1]["data-blue"]) == ("for person", "against person")
    numbers = values(parts["classes"])
    assert sum(map(math.isnan, numbers)) == 3
    assert f"{NONE} {NONE} {NONE}" in Reader(parts["classes"]).text
    assert values(parts["mistakes"]) == [mistake.sure for mistake in report.tested.mistakes]


def test_two_classes_of_which_one_is_never_recognised():
    tested = made_tested(NAMES[:2])
    nan = float("nan")
    rows = (tested.classes[0], replace(tested.classes[1], recall=0.0, precision=nan, f1=nan))
    page = report_page(made_report(2, tested=replace(tested, classes=rows)))
    assert "nan" not in Reader(page).text.lower()
    assert 'data-value="nan"' in page


def test_what_does_not_fit_together_is_refused():
    tested = made_tested()
    with pytest.raises(ValueError, match="'accuracy' has 1 values; expected one for each of the 3 splits"):
        report_page(Report("", tested=replace(tested, measures=(Measure("accuracy", (0.5,)),))))
    with pytest.raises(ValueError, match="measures is empty"):
        report_page(Report("", tested=replace(tested, measures=())))
    with pytest.raises(ValueError, match=r"confusion has the shape \(2, 2\); expected \(8, 8\)"):
        report_page(Report("", tested=replace(tested, confusion=np.eye(2, dtype=int))))
    odd = Mistake("a.jpg", "split 1", ("coast",), ("forest",), 0.5, 0.1, 0.5, picture(0), heat(0)[:9])
    with pytest.raises(ValueError, match=r"map of 'a.jpg' has the shape \(9, 96\); expected \(72, 96\)"):
        report_page(Report("", tested=replace(tested, mistakes=(odd,))))
    compared = made_comparison()
    bare = replace(compared.disagreements[0], picture=None)
    with pytest.raises(ValueError, match="expected no map without a picture"):
        report_page(Report("", comparison=replace(compared, disagreements=(bare,))))


def test_a_large_report_stays_below_ten_megabytes():
    report = made_report(102, pictures=300, per_class=29, learned=made_learned(layers=3, n_filters=128))
    assert len(report.tested.mistakes) > 600
    assert report.tested.images > 2700
    assert len(report_page(report).encode()) < 6e6

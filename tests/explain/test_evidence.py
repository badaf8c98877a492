"""Maps, words and places of single images, against plain loops and against each other."""

import dataclasses

import numpy as np
import pytest
import torch

from ddsfl.explain.places import OVERLAP, _overlap
from ddsfl.images.image_list import ImageList
from tests.oracles import fields as fields_oracle
from tests.oracles import sharing as oracle
from tests.support.explained import explained, odd_images, several_labels, two_classes
from tests.support.models import IMAGES

#: A picture larger than the model sees it, and not square.
LARGE = odd_images()[5]


@pytest.fixture(scope="module")
def evidence():
    """The evidence for all classes of one picture, by four blocks."""
    model = explained("layers")
    [found] = model.explain([LARGE], classes=model.classes_.tolist())
    return found


def voices_by_loops(model, block, coding, pixels, told):
    """Voices of one block by the loops, and the boxes of its descriptors as parts of the image."""
    source = model.sources_[block.source]
    (height, width), grid = pixels.shape[1:], source.field_grid(block.output)
    described = [source.describe_outputs([pixels], {block.output})[block.output]]
    boxes = fields_oracle.boxes((height, width), *grid)
    if block.mirrored:
        described.append(source.describe_outputs([pixels.flip(2)], {block.output})[block.output].mirrored())
        boxes = boxes + fields_oracle.mirrored(boxes, width)
    vectors = torch.cat([part.vectors for part in described])
    places = torch.cat([part.positions for part in described]).double().tolist()
    parts = np.array(boxes) / [height, width, height, width]
    if block.coding["method"] == "fisher":
        mean, axes, *mixture = (np.asarray(array, float) for array in coding.state().values())
        values = vectors.double().numpy()
        points = (np.sign(values) * np.abs(values) ** coding.descriptor_power - mean) @ axes.T
        return oracle.floored(points, places, (height, width), block.levels, mixture, told), parts
    rule = oracle.winners if block.pooling == "max" else oracle.terms
    dense = coding.encode(vectors).dense(coding.n_learned).double().numpy()
    return rule(dense, places, (height, width), block.levels, told), parts


@pytest.mark.parametrize(
    "name",
    ["llc max", "llc average, power", "llc max, power, mirrored", "vq average, power, mirrored", "fisher"],
)
def test_a_map_is_that_of_the_loops_from_pixels_to_pixels(name):
    model, image = explained(name), IMAGES[4][:40, :53]
    classes, target = model.classes_.tolist(), (21, 32)
    [evidence] = model.explain([image], classes=classes)
    pixels = ImageList([image])[0]
    [block], [coding] = model.settings_.blocks, model.codings_
    told = model.classifier_.coef_.astype(float) * model.transform([image])[0].astype(float)
    (voices, by_descriptor, by_word), parts = voices_by_loops(model, block, coding, pixels, told)
    boxes = (parts * [*target, *target]).tolist()
    average = model.decision_function(IMAGES).mean(axis=0)
    for number, label in enumerate(classes):
        expected = np.array(fields_oracle.spread(boxes, by_descriptor[:, number].tolist(), target))
        raw = evidence.map(label, relative=False, shape=target)
        np.testing.assert_allclose(raw, expected, atol=1e-5)
        cells = fields_oracle.cells(block.levels, target)
        usual = fields_oracle.spread(cells, model.average_.cells[block.name][number].tolist(), target)
        np.testing.assert_allclose(evidence.map(label, shape=target), expected - usual, atol=1e-5)
        assert np.sum(usual) == pytest.approx(average[number] - evidence.bias[label], abs=1e-5)
        [part] = evidence.parts
        np.testing.assert_allclose(part.by_word[:, number], by_word[:, number], atol=1e-5)
        best = max(voices, key=lambda pair, number=number: voices[pair][number])
        [loudest] = evidence.top(1, label)
        assert loudest.value == pytest.approx(voices[best][number], abs=1e-5)
        if sum(abs(value[number] - loudest.value) < 1e-4 for value in voices.values()) == 1:
            assert loudest.word == best[1]
            np.testing.assert_allclose(loudest.box, parts[best[0]] * [40, 53, 40, 53], atol=1e-6)


def test_a_class_is_explained_alike_whichever_others_are(evidence):
    model = explained("layers")
    names = evidence.classes[::-1]
    for asked in (names, names[:2], names[:1], names[1:2]):
        [other] = model.explain([LARGE], classes=asked, against=None)
        assert other.classes == asked
        for name in asked:
            assert other.start(name) == pytest.approx(evidence.start(name), abs=1e-7)
            assert other.blocks(name) == pytest.approx(evidence.blocks(name), abs=1e-7)
            np.testing.assert_allclose(other.map(name), evidence.map(name), atol=1e-7)
            np.testing.assert_allclose(
                [word.value for word in other.words(5, name)],
                [word.value for word in evidence.words(5, name)],
                atol=1e-7,
            )


def test_maps_of_blocks_add_up(evidence):
    for relative in (False, True):
        for name in evidence.classes:
            whole = evidence.map(name, relative=relative)
            blocks = evidence.blocks(name, relative=relative)
            assert list(blocks) == ["layer1", "layer2", "layer2 fisher", "sift edges"]
            parts = {block: evidence.map(name, block, relative=relative) for block in blocks}
            np.testing.assert_allclose(sum(parts.values()), whole, atol=1e-12)
            for block, part in parts.items():
                assert part.sum() == pytest.approx(blocks[block], abs=1e-9)


def test_a_relative_map_is_the_raw_one_less_the_average_of_its_cells(evidence):
    model = explained("layers")
    name = evidence.classes[1]
    for block in model.settings_.blocks:
        less = evidence.map(name, block.name, relative=False) - evidence.map(name, block.name)
        cells = fields_oracle.cells(block.levels, evidence.shape)
        usual = fields_oracle.spread(cells, model.average_.cells[block.name][1].tolist(), evidence.shape)
        np.testing.assert_allclose(less, usual, atol=1e-10)


def test_differences_are_those_of_maps_starts_and_blocks(evidence):
    a, b, c = evidence.classes
    assert evidence.against in (b, c)
    for relative in (False, True):
        expected = evidence.map(a, relative=relative) - evidence.map(c, relative=relative)
        np.testing.assert_allclose(evidence.difference(a, c, relative=relative), expected, atol=1e-12)
        start = evidence.start(a, relative=relative) - evidence.start(c, relative=relative)
        assert evidence.start(a, c, relative=relative) == pytest.approx(start)
        blocks = evidence.blocks(a, c, relative=relative)
        assert evidence.start(a, c, relative=relative) + sum(blocks.values()) == pytest.approx(
            evidence.scores[a] - evidence.scores[c], abs=1e-5
        )
        assert evidence.unplaced(a, c, relative=relative) == 0
    np.testing.assert_array_equal(evidence.difference(), evidence.difference(a, evidence.against))
    np.testing.assert_array_equal(evidence.difference(c, b), -evidence.difference(b, c))
    part = evidence.difference(a, b, "layer1", shape=(9, 7))
    np.testing.assert_allclose(
        part, evidence.map(a, "layer1", shape=(9, 7)) - evidence.map(b, "layer1", shape=(9, 7)), atol=1e-12
    )
    # The class that others are compared with is itself compared with the first.
    np.testing.assert_array_equal(
        evidence.difference(evidence.against), evidence.difference(evidence.against, a)
    )


def test_without_a_class_to_compare_with_a_difference_is_a_map():
    [evidence] = explained("llc max").explain(IMAGES[:1], against=None)
    [name] = evidence.classes
    assert evidence.against is None
    np.testing.assert_array_equal(evidence.difference(), evidence.map(name))
    assert [place.value > 0 for place in evidence.top(3)] == [True] * 3


@pytest.mark.parametrize("shape", [(371, 150), (10, 10), (1, 1), (700, 33)])
def test_maps_of_any_shape_have_the_same_sum(evidence, shape):
    for name in evidence.classes:
        heat = evidence.map(name, shape=shape)
        assert heat.shape == shape
        assert heat.sum() == pytest.approx(sum(evidence.blocks(name).values()), abs=1e-9)


def test_a_map_of_half_the_height_is_the_sum_of_pairs_of_rows(evidence):
    name = evidence.classes[0]
    tall, low = evidence.map(name, shape=(80, 60)), evidence.map(name, shape=(40, 60))
    np.testing.assert_allclose(low, tall[::2] + tall[1::2], atol=1e-12)


def test_blocks_without_places_have_no_map():
    model = explained("unplaced")
    [evidence] = model.explain(IMAGES[:1])
    best = evidence.classes[0]
    assert evidence.unplaced_blocks == ("gist", "census")
    blocks = evidence.blocks(best, relative=False)
    vectors = model.block_vectors(IMAGES[:1])
    coef, _ = model.classifier_.rows_of([model.classes_.tolist().index(best)])
    first = 0
    for (name, rows), weight in zip(vectors.items(), model.weights_, strict=True):
        said = float(coef[0, first : first + rows.shape[1]] @ rows[0].double().numpy()) * weight
        assert blocks[name] == pytest.approx(said, abs=1e-5)
        first += rows.shape[1]
    for relative in (False, True):
        said = evidence.blocks(best, relative=relative)
        assert evidence.unplaced(best, relative=relative) == pytest.approx(said["gist"] + said["census"])
        assert not evidence.map(best, "gist", relative=relative).any()
    assert {place.block for place in evidence.top(50)} == {"edges"}
    assert {word.block for word in evidence.words(50)} == {"edges"}
    [nothing] = explained("nothing placed").explain(IMAGES[:1])
    assert nothing.top() == []
    assert nothing.words() == []
    assert not nothing.map(nothing.classes[0]).any()


def test_places_are_the_loudest_that_do_not_overlap(evidence):
    a, b, _ = evidence.classes
    for speaking, sign in (("for", 1), ("against", -1)):
        places = evidence.top(6, a, b, speaking=speaking)
        values = [sign * place.value for place in places]
        assert len(places) == 6
        assert values == sorted(values, reverse=True)
        assert values[-1] > 0
        for number, place in enumerate(places):
            top, left, bottom, right = place.box
            assert 0 <= top < bottom <= evidence.shape[0]
            assert 0 <= left < right <= evidence.shape[1]
            assert all(_overlap(place.box, other.box) <= OVERLAP for other in places[:number])
        # The loudest of all voices is the first.
        mix = np.array([1.0, -1.0, 0.0])
        loudest = max(float((sign * part.voices.values.numpy() @ mix).max()) for part in evidence.parts)
        assert values[0] == pytest.approx(loudest)
    assert evidence.top(3) == evidence.top(3, a, evidence.against)
    assert evidence.top(3, against=b) == evidence.top(3, a, b)
    assert evidence.top(2, b) != evidence.top(2, a)
    assert evidence.top(0) == []
    for list_them in (evidence.top, evidence.words):
        with pytest.raises(ValueError, match="n=-1 is negative; expected at least 0"):
            list_them(-1)


def test_words_are_those_that_contribute_most_beyond_the_average(evidence):
    model = explained("layers")
    a, b, _ = evidence.classes
    words = evidence.words(7, a, b, n_places=3)
    others = evidence.words(7, a, b, n_places=3, speaking="against")
    everything, said = [], set()
    for part in evidence.parts:
        usual = model.average_.words[part.block.name]
        values = part.by_word[:, 0] - part.by_word[:, 1] - (usual[0] - usual[1])
        everything += [(value, part.block.name, word) for word, value in enumerate(values)]
        spoken = (part.voices.values[:, 0] - part.voices.values[:, 1]).sign().tolist()
        said |= {(part.block.name, word, sign) for word, sign in zip(part.voices.words.tolist(), spoken)}
    for sign, found in ((1, words), (-1, others)):
        expected = [item for item in everything if sign * item[0] > 0 and (*item[1:], sign) in said]
        expected.sort(key=lambda item: -abs(item[0]))
        assert len(found) > 2
        assert [(word.block, word.word) for word in found] == [item[1:] for item in expected[:7]]
        np.testing.assert_allclose([word.value for word in found], [item[0] for item in expected[:7]])
    # Over all words of a block, this is what the block adds relative to the average.
    for block, total in evidence.blocks(a, b).items():
        assert sum(value for value, name, _ in everything if name == block) == pytest.approx(total, abs=1e-6)
    for word in [*words, *others]:
        assert 1 <= len(word.places) <= 3
        for number, place in enumerate(word.places):
            assert (place.block, place.word) == (word.block, word.word)
            assert place.value * word.value > 0
            assert all(_overlap(place.box, other.box) <= OVERLAP for other in word.places[:number])
    assert evidence.words(4) == evidence.words(4, a, evidence.against)
    assert evidence.words(0) == []


def test_classes_and_blocks_that_were_not_explained_are_named(evidence):
    [two] = explained("layers").explain(IMAGES[:1])
    [missing] = set(two.labels.tolist()) - set(two.classes)
    expected = rf"name='{missing}' was not explained; expected one of {', '.join(two.classes)}\. Other"
    for call in (two.map, two.start, two.blocks, two.unplaced):
        with pytest.raises(ValueError, match=expected):
            call(missing)
    with pytest.raises(ValueError, match=f"a='{missing}' was not explained"):
        two.difference(missing)
    with pytest.raises(ValueError, match=f"b='{missing}' was not explained"):
        two.difference(two.classes[0], missing)
    with pytest.raises(ValueError, match=f"against='{missing}' was not explained"):
        two.top(1, two.classes[0], missing)
    with pytest.raises(ValueError, match="name='moon' is not a class; expected one of"):
        two.map("moon")
    with pytest.raises(
        ValueError, match="block='layer3' is unknown; expected one of layer1, layer2, layer2 fisher"
    ):
        evidence.map(evidence.classes[0], "layer3")
    with pytest.raises(ValueError, match="speaking='loud' is unknown; expected 'for' or 'against'"):
        evidence.top(1, speaking="loud")


def test_without_the_average_raw_maps_remain():
    model = explained("unplaced")
    [evidence] = model.explain(IMAGES[:1])
    parts = tuple(dataclasses.replace(part, average=None) for part in evidence.parts)
    bare = dataclasses.replace(evidence, parts=parts)
    name = bare.classes[0]
    assert evidence.has_average
    assert not bare.has_average
    assert not dataclasses.replace(evidence, parts=(*parts[:1], *evidence.parts[1:])).has_average
    np.testing.assert_array_equal(bare.map(name, relative=False), evidence.map(name, relative=False))
    assert bare.blocks(name, relative=False) == evidence.blocks(name, relative=False)
    for call in (bare.map, bare.difference, bare.start, bare.blocks, bare.unplaced):
        with pytest.raises(
            ValueError, match=r"relative=True needs the average training image, which this model lacks"
        ):
            call(name)
    values = {word.word: word.value for word in bare.words(3)}
    mix = np.array([1.0, -1.0])
    [placed] = [part for part in evidence.parts if part.by_word is not None]
    for word, value in values.items():
        assert value == pytest.approx(float(placed.by_word[word] @ mix))
    assert bare.top(3) == evidence.top(3)


def test_the_error_is_measured(evidence):
    assert 0 <= evidence.error < 1e-6
    scores = evidence.scores_by_class.copy()
    scores[1] += 0.25
    assert dataclasses.replace(evidence, scores_by_class=scores).error == pytest.approx(0.25, abs=1e-5)


def test_it_is_shown_in_one_line(evidence):
    [two] = two_classes().explain([LARGE])
    assert repr(two).startswith("<Evidence for ")
    assert repr(two).endswith("; 371 x 150 pixels>")
    assert f"{two.classes[0]}: {two.scores[two.classes[0]]:.3g}" in repr(two)
    [several] = several_labels().explain([LARGE])
    assert not several.single_label

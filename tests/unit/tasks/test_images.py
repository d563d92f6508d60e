"""Images: whatever the file holds becomes an array of known size, range and channels."""

import sys

import numpy as np
import pytest
from PIL import Image

from prunus.core.errors import EvaluationError, MissingExtraError
from prunus.tasks.images import Preparation
from prunus.tasks.settings import DataSettings


def preparation(**given):
    return Preparation(DataSettings(kind="digits", **given))


def plain(image, **given):
    return preparation(**given).plain(image, "'it'")


def varied(image, augment, seed=0, **given):
    made = preparation(augment=augment, **given)
    return made.varied(image, "'it'", np.random.default_rng(seed))


def colours(height=4, width=6):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


def test_a_file_an_image_and_bytes_are_the_same(tmp_path):
    array = colours()
    Image.fromarray(array).save(tmp_path / "a.png")
    expected = array.transpose(2, 0, 1).astype(np.float32) / 255
    sources = (tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(array), array)
    for source in (*sources, array.transpose(2, 0, 1)):
        found = plain(source)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)


def test_floats_are_taken_as_they_are():
    array = np.random.default_rng(0).normal(size=(3, 4, 5))
    np.testing.assert_array_equal(plain(array), array.astype(np.float32))
    np.testing.assert_array_equal(plain(array[0], channels=1), array[:1].astype(np.float32))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I"])
def test_every_mode_becomes_one_or_three_channels(tmp_path, mode, channels):
    whole = Image.fromarray(np.full((4, 6), 128, np.uint8))
    image = (
        Image.fromarray(np.full((4, 6), 128 * 257, np.uint16))
        if mode.startswith("I")
        else whole.convert(mode)
    )
    path = tmp_path / f"a.{'tif' if mode in ('CMYK', 'YCbCr') else 'png'}"
    image.save(path)
    found = plain(path, channels=channels)
    assert found.shape == (channels, 4, 6)
    expected = 1 if mode == "1" else 128 / 255
    if mode == "1":
        assert set(np.unique(found)) <= {0, 1}  # drawn as dots
    else:
        np.testing.assert_allclose(found, expected, atol=2 / 255)


def test_a_palette_with_transparent_bytes(tmp_path):
    image = Image.fromarray(colours()).convert("P")
    image.save(tmp_path / "a.png", transparency=bytes(range(200)))
    assert plain(tmp_path / "a.png").shape == (3, 4, 6)


def test_the_camera_was_held_upright(tmp_path):
    image = Image.fromarray(colours(4, 6))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    image.save(tmp_path / "a.png", exif=exif)
    assert plain(tmp_path / "a.png").shape == (3, 6, 4)


def test_channels_of_arrays_are_made_to_fit():
    grey = np.full((1, 2, 2), 0.5, np.float32)
    assert plain(grey, channels=3).shape == (3, 2, 2)
    np.testing.assert_allclose(plain(np.full((3, 2, 2), 0.5), channels=1), grey, rtol=1e-6)
    with pytest.raises(EvaluationError, match=r"(?s)'it' has 4 channels, and 3.*channels, height"):
        plain(np.zeros((4, 2, 2)), channels=3)


def test_mean_and_standard_deviation():
    array = np.full((3, 2, 2), 0.5)
    found = plain(array, mean=[0.5, 0.4, 0.3], std=[0.1])
    np.testing.assert_allclose(found[:, 0, 0], [0, 1, 2], atol=1e-6)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_the_middle_is_cut_out_in_its_proportions(kind):
    array = np.zeros((8, 12), kind)
    array[:, 1:11] = 100  # resampling looks a pixel around
    image = array if kind is np.uint8 else array[None]
    found = plain(image, channels=1, image_size=4)
    assert found.shape == (1, 4, 4)
    assert len(np.unique(found)) == 1
    stretched = plain(image, channels=1, image_size=(4, 6), resize="stretch")
    assert stretched.shape == (1, 4, 6)
    assert len(np.unique(stretched)) > 1


def test_a_share_of_the_middle():
    ramp = np.tile(np.linspace(0, 1, 64, dtype=np.float32), (64, 1))
    whole, half = (plain(ramp, channels=1, image_size=16, crop_share=s) for s in (1, 0.5))
    np.testing.assert_allclose(np.ptp(half), np.ptp(whole) / 2, atol=0.03)
    np.testing.assert_allclose(half.mean(), whole.mean(), atol=1e-3)


def test_enlarged_images_reach_the_size_too():
    assert plain(colours(3, 5), image_size=[16, 20]).shape == (3, 16, 20)


def test_a_shift_moves_and_fills_with_black():
    image = np.ones((1, 6, 6), np.float32)
    augment = {"crop": "shift", "padding": 2}
    found = [varied(image, augment, seed, channels=1) for seed in range(40)]
    assert {one.shape for one in found} == {(1, 6, 6)}
    sums = {float(one.sum()) for one in found}
    assert max(sums) == 36
    assert min(sums) == 16


def test_a_flip_comes_every_other_time():
    image = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    found = [varied(image, {"flip": True}, seed, channels=1)[0, 0, 0] for seed in range(200)]
    assert set(found) == {0, 3}
    assert 60 < sum(one == 3 for one in found) < 140


@pytest.mark.parametrize("image_size", [None, 8])
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_a_random_part_is_enlarged(image_size, kind):
    image = colours(12, 20).astype(kind)
    image = image if kind is np.uint8 else image.transpose(2, 0, 1)
    augment = {"crop": "resized", "smallest": 0.3}
    found = [varied(image, augment, seed, image_size=image_size) for seed in range(20)]
    assert {one.shape for one in found} == {(3, 8, 8) if image_size else (3, 12, 20)}
    assert not np.array_equal(found[0], found[1])


def test_the_same_seed_the_same_image():
    augment = {"crop": "resized", "flip": True}
    one, same, other = (varied(colours(), augment, seed, image_size=8) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("content", [b"", b"no image at all", b"\x89PNG\r\n\x1a\n half"])
def test_a_broken_file_is_named(tmp_path, content):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(EvaluationError, match=r"(?s)image 'it' cannot be read: .*fix: replace it"):
        plain(path)


def test_a_file_cut_short_is_named(tmp_path):
    path = tmp_path / "short.jpg"
    Image.fromarray(colours(64, 64)).save(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(EvaluationError, match="image 'it' cannot be read: OSError"):
        plain(path)


@pytest.mark.parametrize("image", [None, "x" * 0 or object(), np.zeros(3), np.zeros((0, 2))])
def test_what_is_no_image_is_told(image):
    with pytest.raises(EvaluationError, match=r"(?s)image 'it' is .*, which is no image"):
        plain(image)


def test_pillow_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"(?s)read with Pillow.*fix: pip install pillow"):
        plain(colours())

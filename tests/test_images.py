"""Pictures in: golden crops, tilings by hand, every source, wide pixels, and input that is no picture."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from picture_files import encode, noise, png
from PIL import Image

from photon.errors import ImageError
from photon.images.crops import choose_tiling, prepare_image
from photon.images.decode import FORMATS, load_image

DATA = Path(__file__).parent / "data"
LIMIT = 50_000_000
MOONDREAM = {"crop_size": 378, "patch_size": 14, "overlap_margin": 4, "max_crops": 12}


def pixels(source, max_pixels: int = LIMIT) -> np.ndarray:
    return np.asarray(load_image(source, max_pixels=max_pixels))


# --- crops


@pytest.mark.parametrize("name, tiling", [("small", (1, 1)), ("wide", (2, 6)), ("photo", (2, 4))])
@pytest.mark.parametrize("folder", ["moondream2_tiny", "moondream2_tiny_grounding"])
def test_golden_crops(folder: str, name: str, tiling: tuple[int, int]) -> None:
    image = load_image(DATA / folder / f"{name}.png", max_pixels=LIMIT)
    prepared = prepare_image(image, **MOONDREAM)
    assert prepared.tiling == tiling and prepared.size == image.size
    np.testing.assert_array_equal(prepared.crops, np.load(DATA / folder / "expected.npz")[f"{name}.crops"])


@pytest.mark.parametrize(
    "height, width, expected",
    [
        (378, 378, (1, 1)),  # both sides are one window of 266 and two margins of 56
        (378, 9999, (1, 1)),  # one side within a window is enough
        (1, 1, (1, 1)),  # smaller than the margins
        (1, 5000, (1, 1)),
        (379, 379, (3, 3)),  # 267: at least 2 x 2; sqrt(12 * 1) = 3.46 both ways
        (644, 910, (2, 4)),  # 532, 798: at least 2 x 3; sqrt(8) = 2.8, sqrt(18) = 4.2: 2 x 4
        (600, 800, (2, 4)),  # 488, 688: at least 2 x 3; sqrt(8.5) = 2.9, sqrt(16.9) = 4.1
        (800, 600, (4, 2)),
        (400, 1500, (2, 6)),  # 288, 1388: at least 2 x 6 = 12; sqrt(57.8) = 7.6 columns are too many: 12 // 2
        (1500, 400, (6, 2)),
        (5000, 400, (10, 1)),  # 4888, 288: at least 19 x 2 = 38; sqrt(12 / 38) = 0.562: 10.7 and 1.1
        (400, 50000, (1, 12)),  # 288, 49888: at least 2 x 188 = 376; sqrt(12 / 376) = 0.179: 0.4 and 33.6, over 12
        (50000, 400, (12, 1)),
        (4112, 4112, (3, 3)),  # 4000: at least 16 x 16; sqrt(12 / 256) = 0.217: 3.46
    ],
)
def test_tilings_by_hand(height: int, width: int, expected: tuple[int, int]) -> None:
    assert choose_tiling(height, width, crop=378, margin_pixels=56, max_tiles=12) == expected


def test_tiles_are_windows_of_the_resized_picture() -> None:
    image = noise(700, 500)
    prepared = prepare_image(image, crop_size=196, patch_size=14, overlap_margin=2, max_crops=6)
    rows, columns = prepared.tiling
    assert (rows, columns) == (2, 2)  # window 140; 444, 644: at least 4 x 5 = 20; sqrt(6 / 20) = 0.548: 2.2 and 2.7
    whole = np.asarray(image.resize((2 * 140 + 56, 2 * 140 + 56), Image.Resampling.LANCZOS))
    np.testing.assert_array_equal(prepared.crops[0], np.asarray(image.resize((196, 196), Image.Resampling.LANCZOS)))
    np.testing.assert_array_equal(prepared.crops[1 + 1 * columns + 0], whole[140:336, 0:196])
    np.testing.assert_array_equal(prepared.crops[1 + 0 * columns + 1], whole[0:196, 140:336])


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (3, 31)])
def test_extreme_pictures_are_cut(size: tuple[int, int]) -> None:
    prepared = prepare_image(load_image(encode(noise(*size)), max_pixels=LIMIT), **MOONDREAM)
    assert prepared.crops.shape == (2, 378, 378, 3) and prepared.size == size
    np.testing.assert_array_equal(prepared.crops[0], prepared.crops[1])


# --- sources


def test_every_source_gives_the_same_pixels(tmp_path: Path) -> None:
    picture = noise(31, 17)
    data = encode(picture)
    path = tmp_path / "a picture.dat"  # the name says nothing about the format
    path.write_bytes(data)
    array = np.asarray(picture).copy()
    sources = [str(path), path, data, bytearray(data), memoryview(data), picture, Image.open(path), array]
    sources += [array[:, :, ::-1][:, :, ::-1], np.asfortranarray(array)]
    for source in sources:
        np.testing.assert_array_equal(pixels(source), np.asarray(picture))


def test_the_result_is_the_callers_no_more() -> None:
    picture = noise(8, 8)
    array = np.asarray(picture).copy()
    kept = np.asarray(picture).copy()
    from_pil, from_array = load_image(picture, max_pixels=LIMIT), load_image(array, max_pixels=LIMIT)
    picture.paste((0, 0, 0), (0, 0, 8, 8))
    array[:] = 0
    np.testing.assert_array_equal(np.asarray(from_pil), kept)
    np.testing.assert_array_equal(np.asarray(from_array), kept)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow tells of some damage
@pytest.mark.parametrize(
    "exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"]
)
def test_unreadable_exif_leaves_the_pixels(exif: bytes) -> None:
    picture = noise(9, 5)
    np.testing.assert_array_equal(pixels(encode(picture, exif=exif)), np.asarray(picture))


# --- wide pixels


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I;16L", "I", "F"])
@pytest.mark.parametrize("step", [256, 257])
def test_a_16_bit_ramp_keeps_its_levels(mode: str, step: int) -> None:
    ramp = (np.arange(256) * step)[None]
    kinds = {"I;16": "<u2", "I;16L": "<u2", "I;16B": ">u2", "I": "<i4", "F": "<f4"}
    image = Image.frombytes(mode, (256, 1), ramp.astype(kinds[mode]).tobytes())
    assert pixels(image)[0, :, 0].tolist() == list(range(256))
    if mode == "I;16":
        assert pixels(encode(image))[0, :, 1].tolist() == list(range(256))
    if mode in ("I;16B", "F"):
        assert pixels(encode(image, "TIFF"))[0, :, 2].tolist() == list(range(256))


def test_wide_pixels_of_other_ranges() -> None:
    fractions = Image.fromarray((np.arange(256, dtype=np.float32) / 255)[None])
    assert pixels(fractions)[0, :, 0].tolist() == list(range(256))
    small = Image.fromarray(np.arange(256, dtype=np.int32)[None])
    assert pixels(small)[0, :, 0].tolist() == list(range(256))
    wide = Image.fromarray(np.array([[-5, 0, 2**30, 2**31 - 1]], dtype=np.int32))
    assert pixels(wide)[0, :, 0].tolist() == [0, 0, 128, 255]
    with pytest.raises(ImageError, match="finite"):
        load_image(Image.fromarray(np.array([[0.5, np.nan]], dtype=np.float32)), max_pixels=LIMIT)


# --- what is no picture


def test_missing_and_unreadable_paths(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none.png", "none.png: no such file"),
        (tmp_path, "directory"),
        ("a\0b", "cannot be opened"),
        ("x" * 5000, "too long"),
    ):
        with pytest.raises(ImageError, match=reason) as caught:
            load_image(path, max_pixels=LIMIT)
        assert len(str(caught.value)) < 300


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow tells of some damage
@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "PPM"])
def test_truncated_at_any_length(format_name: str) -> None:
    """Never a picture with a part missing: an error, or (only a trailer was cut) every pixel."""
    data = encode(noise(40, 30), format_name)
    whole = pixels(data)
    accepted = 0
    for length in [*range(1, len(data) - 150, 53), *range(len(data) - 150, len(data))]:
        try:
            np.testing.assert_array_equal(pixels(data[:length]), whole)
            accepted += 1
        except ImageError as error:
            assert f"bytes of length {length}" in str(error)
    assert accepted <= 24
    with pytest.raises(ImageError):
        load_image(Image.open(io.BytesIO(encode(noise(400, 300), "JPEG")[:-128])), max_pixels=LIMIT)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow tells of some damage
def test_damaged_bytes_never_raise_anything_else() -> None:
    rng = np.random.default_rng(7)
    for format_name in FORMATS:
        data = np.frombuffer(encode(noise(24, 20), format_name), dtype=np.uint8)
        for _ in range(60):
            damaged = data.copy()
            places = rng.integers(0, min(len(data), int(rng.choice([64, 400, 10**6]))), 4)
            damaged[places] = rng.integers(0, 256, 4, dtype=np.uint8)
            try:
                load_image(damaged.tobytes(), max_pixels=100_000)
            except ImageError as error:
                assert f"bytes of length {len(data)}" in str(error)


def test_too_many_pixels_are_refused_from_the_header(recwarn: pytest.WarningsRecorder) -> None:
    for side in (60_000, 10_000):
        with pytest.raises(ImageError, match=f"{side} x {side} = {side * side} pixels, the limit is {LIMIT}"):
            load_image(png((side, side), 8, 2, [b""]), max_pixels=LIMIT)
    gif = b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + encode(noise(2, 2), "GIF")[13:]
    with pytest.raises(ImageError, match="65535 x 65535"):
        load_image(gif, max_pixels=LIMIT)
    assert Image.MAX_IMAGE_PIXELS == 89_478_485, "Pillow's own limit is the caller's"
    assert not recwarn.list


def test_the_limit_is_inclusive_and_holds_for_every_source() -> None:
    picture = noise(10, 10)
    for source in (picture, encode(picture), np.asarray(picture)):
        assert load_image(source, max_pixels=100).size == (10, 10)
        with pytest.raises(ImageError, match="10 x 10 = 100 pixels, the limit is 99"):
            load_image(source, max_pixels=99)


def test_a_setting_above_pillows_limit_is_honoured() -> None:
    big = Image.new("1", (20_000, 9_000))  # 180 million pixels, 22 MB as bits
    with pytest.raises(ImageError, match="180000000 pixels"):
        load_image(big, max_pixels=LIMIT)
    with pytest.raises(ImageError, match="truncated"):
        load_image(png((20_000, 9_000), 8, 2, [b""]), max_pixels=200_000_000)


def test_pictures_without_pixels() -> None:
    with pytest.raises(ImageError, match=r"no pixels \(5 x 0\)"):
        load_image(np.zeros((0, 5, 3), np.uint8), max_pixels=LIMIT)
    with pytest.raises(ImageError, match=r"no pixels \(0 x 5\)"):
        load_image(Image.new("RGB", (0, 5)), max_pixels=LIMIT)


def test_other_types_are_refused() -> None:
    with pytest.raises(ImageError, match="got list"):
        load_image([[0]], max_pixels=LIMIT)  # type: ignore[arg-type]
    with pytest.raises(ImageError, match="got NoneType"):
        load_image(None, max_pixels=LIMIT)  # type: ignore[arg-type]

"""Pictures in: golden crops, tilings by hand, every orientation and pixel mode, and input that is no picture."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from photon.errors import ImageError
from photon.images.crops import choose_tiling, prepare_image
from photon.images.decode import FORMATS, load_image

DATA = Path(__file__).parent / "data"
LIMIT = 50_000_000
MOONDREAM = {"crop_size": 378, "patch_size": 14, "overlap_margin": 4, "max_crops": 12}


def encode(image: Image.Image, format_name: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(width * 7919 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.frombytes("RGB", (width, height), pixels.tobytes())


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


# Where the corners A B C D (top left, top right, bottom left, bottom right) of the upright picture are stored, by the
# EXIF standard: 2 = mirrored, 3 = upside down, 4 = mirrored upside down, 5-8 = lying on a side.
STORED: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, 1),  # the stored picture is turned clockwise to show it
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format_name", ["PNG", "TIFF", "WEBP", "JPEG"])
def test_all_orientations_on_every_source(orientation: int, format_name: str, tmp_path: Path) -> None:
    upright = np.asarray(noise(3, 2).resize((48, 32), Image.Resampling.NEAREST))
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](upright)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}.get(format_name, {})
    data = encode(stored, format_name, exif=exif, **options)
    (tmp_path / "x").write_bytes(data)
    loaded = Image.open(io.BytesIO(data))
    loaded.load()
    tolerance = 12 if format_name == "JPEG" else 0
    for source in (data, tmp_path / "x", Image.open(io.BytesIO(data)), loaded):
        seen = pixels(source)
        assert seen.shape == upright.shape
        assert np.abs(seen.astype(int) - upright).max() <= tolerance


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow tells of some damage
@pytest.mark.parametrize(
    "exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"]
)
def test_unreadable_exif_leaves_the_pixels(exif: bytes) -> None:
    picture = noise(9, 5)
    np.testing.assert_array_equal(pixels(encode(picture, exif=exif)), np.asarray(picture))


# --- pixel modes


def test_transparency_is_composited_on_white() -> None:
    rgba = Image.new("RGBA", (4, 1))
    for x, value in enumerate([(255, 0, 0, 255), (255, 0, 0, 0), (0, 0, 0, 128), (9, 9, 9, 1)]):
        rgba.putpixel((x, 0), value)
    assert pixels(encode(rgba))[0].tolist() == [[255, 0, 0], [255, 255, 255], [127, 127, 127], [254, 254, 254]]


def test_every_kind_of_transparency() -> None:
    keyed = Image.new("RGB", (2, 1), (10, 20, 30))
    keyed.putpixel((1, 0), (1, 2, 3))
    assert pixels(encode(keyed, transparency=(1, 2, 3)))[0].tolist() == [[10, 20, 30], [255, 255, 255]]
    palette = keyed.convert("P", palette=Image.Palette.ADAPTIVE)
    index = palette.getpixel((1, 0))
    assert pixels(encode(palette, transparency=index))[0].tolist() == [[10, 20, 30], [255, 255, 255]]
    assert pixels(encode(palette, "GIF", transparency=index))[0].tolist() == [[10, 20, 30], [255, 255, 255]]
    gray = Image.new("LA", (2, 1), (60, 255))
    gray.putpixel((1, 0), (60, 0))
    assert pixels(encode(gray))[0].tolist() == [[60, 60, 60], [255, 255, 255]]
    assert pixels(gray.convert("La"))[0].tolist() == [[60, 60, 60], [255, 255, 255]]
    assert pixels(gray.convert("RGBA").convert("RGBa"))[0].tolist() == [[60, 60, 60], [255, 255, 255]]


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


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "PA", "RGBX"])
def test_other_modes_show_their_colour(mode: str) -> None:
    white_black = Image.new("RGB", (2, 1), (255, 255, 255))
    white_black.putpixel((1, 0), (0, 0, 0))
    source = white_black.convert("P").convert("PA") if mode == "PA" else white_black.convert(mode)
    assert pixels(source)[0].tolist() == [[255, 255, 255], [0, 0, 0]]


def test_a_printers_jpeg() -> None:
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    assert np.abs(pixels(encode(red, "JPEG", quality=95)).astype(int) - (255, 0, 0)).max() < 12


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


@pytest.mark.parametrize(
    "data",
    [
        b"plain text",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"MZ\x90\0" + bytes(200),
        b"\0\0\0\x18ftypheic" + bytes(99),
    ],
    ids=["text", "svg", "exe", "heic"],
)
def test_what_is_no_image_is_told_what_would_be(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=rf"bytes of length {len(data)}: not an image .*{', '.join(FORMATS)}"):
        load_image(data, max_pixels=LIMIT)
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(ImageError, match="x.png: not an image"):
        load_image(tmp_path / "x.png", max_pixels=LIMIT)


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    for source, name in ((b"", "bytes of length 0"), (tmp_path / "x.png", "x.png")):
        with pytest.raises(ImageError, match=f"{name}: empty"):
            load_image(source, max_pixels=LIMIT)


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


def png_claiming(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_too_many_pixels_are_refused_from_the_header(recwarn: pytest.WarningsRecorder) -> None:
    for side in (60_000, 10_000):
        with pytest.raises(ImageError, match=f"{side} x {side} = {side * side} pixels, the limit is {LIMIT}"):
            load_image(png_claiming(side, side), max_pixels=LIMIT)
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
        load_image(png_claiming(20_000, 9_000), max_pixels=200_000_000)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 1), np.uint8),
        np.zeros((3, 4, 4), np.uint8),
        np.zeros((1, 4, 4, 3), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4, 3), np.int8),
    ],
    ids=lambda a: f"{a.shape}{a.dtype}",
)
def test_odd_arrays_are_refused_with_shape_and_dtype(array: np.ndarray) -> None:
    with pytest.raises(ImageError) as caught:
        load_image(array, max_pixels=LIMIT)
    assert str(array.shape) in str(caught.value) and str(array.dtype) in str(caught.value)


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

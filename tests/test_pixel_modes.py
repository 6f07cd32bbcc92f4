"""What a viewer shows of every pixel mode, in files, PIL images and arrays: tables of RGB written by hand."""

import io

import numpy as np
import pytest
from picture_files import PICTURES, Stream, data_url, encode, gif, ink_profile, png
from PIL import Image

from photon.images.decode import load_image

LIMIT = 50_000_000
BLACK, WHITE, RED, GREEN, BLUE = (0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255)


def pixels(source, max_pixels: int = LIMIT) -> np.ndarray:
    return np.asarray(load_image(source, max_pixels=max_pixels)).astype(int)


def gray(*levels: int) -> list[tuple[int, int, int]]:
    return [(level, level, level) for level in levels]


PALETTE = bytes([*RED, *GREEN, *BLUE, 9, 9, 9])
SOME_CLEAR = [RED, WHITE, (127, 127, 255), (9, 9, 9)]
WIDE_KEY = b"\1\x09\2\x09\3\x09"
STEPS = bytes([0b00011011])  # 0 1 2 3 in two bits each

# A row of pixels as a file has it, and what a viewer shows on white.
FILES: dict[str, tuple[bytes, list[tuple[int, int, int]]]] = {
    "gray 1": (png((2, 1), 1, 0, [b"\x40"]), gray(0, 255)),
    "gray 1, white transparent": (png((2, 1), 1, 0, [b"\x40"], tRNS=b"\0\0"), gray(255, 255)),
    "gray 2": (png((4, 1), 2, 0, [STEPS]), gray(0, 85, 170, 255)),
    "gray 2, key": (png((4, 1), 2, 0, [STEPS], tRNS=b"\0\1"), gray(0, 255, 170, 255)),
    "gray 4": (png((2, 1), 4, 0, [b"\x5a"]), gray(85, 170)),
    "gray 4, key": (png((2, 1), 4, 0, [b"\x5a"], tRNS=b"\0\5"), gray(255, 170)),
    "gray 8, key": (png((2, 1), 8, 0, [b"\x5a\x10"], tRNS=b"\0\x10"), gray(0x5A, 255)),
    "gray 16": (png((3, 1), 16, 0, [b"\x5a\x10\x5a\xff\xff\xff"]), gray(0x5A, 0x5A, 255)),
    "gray 16, key": (png((2, 1), 16, 0, [b"\x5a\x10\x5a\x11"], tRNS=b"\x5a\x10"), gray(255, 0x5A)),
    "gray and alpha 8": (png((3, 1), 8, 4, [bytes([60, 255, 60, 0, 0, 128])]), gray(60, 255, 127)),
    "gray and alpha 16": (png((2, 1), 16, 4, [b"\x3c\0\xff\xff\x3c\0\0\0"]), gray(60, 255)),
    "RGB 8, key": (png((2, 1), 8, 2, [b"\1\2\3\x0a\x14\x1e"], tRNS=b"\0\1\0\2\0\3"), [WHITE, (10, 20, 30)]),
    "RGB 16": (png((1, 1), 16, 2, [bytes([10, 99, 20, 99, 30, 99])]), [(10, 20, 30)]),
    "RGB 16, key": (png((2, 1), 16, 2, [WIDE_KEY + b"\4\0\5\0\6\0"], tRNS=WIDE_KEY), [WHITE, (4, 5, 6)]),
    "RGBA 8": (png((3, 1), 8, 6, [bytes([*RED, 255, *RED, 0, *BLACK, 128])]), [RED, WHITE, *gray(127)]),
    "RGBA 16": (png((2, 1), 16, 6, [b"\xff\xff\0\0\0\0\xff\xff" + bytes(6) + b"\x80\0"]), [RED, *gray(127)]),
    "palette 2": (png((4, 1), 2, 3, [STEPS], PLTE=PALETTE), [RED, GREEN, BLUE, *gray(9)]),
    "palette 2, some clear": (png((4, 1), 2, 3, [STEPS], PLTE=PALETTE, tRNS=b"\xff\0\x80"), SOME_CLEAR),
    "GIF": (gif((4, 1), (0, 0, 4, 1), [0, 1, 2, 3]), [RED, GREEN, BLUE, BLACK]),
    "GIF, first frame smaller than the screen": (gif((4, 1), (1, 0, 2, 1), [1, 2]), [WHITE, GREEN, BLUE, WHITE]),
    "PGM 16, dark": (b"P5 2 1 65535\n\0\xff\x80\0", gray(0, 128)),
    "PGM 10": (b"P5 2 1 1023\n\x03\xff\x02\0", gray(255, 128)),
    "PBM": (b"P4 2 1\n\x40", gray(255, 0)),
    "PFM": (b"Pf 2 1 -1.0\n" + np.array([0.5, 1.0], "<f4").tobytes(), gray(128, 255)),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_pixel_modes_of_files(name: str) -> None:
    data, expected = FILES[name]
    for source in (data, Stream(data), data_url(data), Image.open(io.BytesIO(data))):
        shown = pixels(source)[0]
        assert np.abs(shown - np.array(expected)).max() <= 1, shown.tolist()


LAB_RED = (138, 209, 198)  # CIELAB (D50) 54.3, 80.8, 69.9 in 8 bits: L * 2.55, a + 128, b + 128
PIL_IMAGES: dict[str, tuple[str, list, list[tuple[int, int, int]]]] = {
    "1": ("1", [0, 255], gray(0, 255)),
    "L": ("L", [0, 77, 255], gray(0, 77, 255)),
    "LA": ("LA", [(60, 255), (60, 0), (0, 128)], gray(60, 255, 127)),
    "La": ("La", [(60, 255), (0, 0)], gray(60, 255)),
    "RGB": ("RGB", [(1, 2, 3)], [(1, 2, 3)]),
    "RGBX": ("RGBX", [(1, 2, 3, 0)], [(1, 2, 3)]),
    "RGBA": ("RGBA", [(*RED, 255), (*RED, 0), (0, 0, 0, 128), (9, 9, 9, 1)], [RED, WHITE, *gray(127, 254)]),
    "RGBa": ("RGBa", [(64, 0, 0, 128), (0, 0, 0, 0)], [(191, 127, 127), WHITE]),
    "CMYK": ("CMYK", [(0, 0, 0, 0), (0, 255, 255, 0), (0, 0, 0, 255), (0, 0, 0, 128)], [WHITE, RED, BLACK, *gray(127)]),
    "YCbCr": ("YCbCr", [(255, 128, 128), (76, 85, 255), (29, 255, 107)], [WHITE, RED, BLUE]),
    "HSV": ("HSV", [(0, 255, 255), (0, 0, 128), (85, 255, 255)], [RED, *gray(128), GREEN]),
    "LAB": ("LAB", [(255, 128, 128), (0, 128, 128), LAB_RED], [WHITE, BLACK, RED]),
    "I": ("I", [0, 128 * 256, 65535], gray(0, 128, 255)),
    "I;16": ("I;16", [0, 128 * 256, 65535], gray(0, 128, 255)),
    "I;16, dark": ("I;16", [0, 255, 256], gray(0, 0, 1)),
    "F": ("F", [0.0, 0.5, 1.0], gray(0, 128, 255)),
    "F, overshot": ("F", [-0.04, 0.5, 1.04], gray(0, 128, 255)),
}  # fmt: skip


@pytest.mark.parametrize("name", PIL_IMAGES)
def test_pixel_modes_of_pil_images(name: str) -> None:
    mode, values, expected = PIL_IMAGES[name]
    image = Image.new(mode, (len(values), 1))
    for x, value in enumerate(values):
        image.putpixel((x, 0), value)
    shown = pixels(image)[0]
    assert np.abs(shown - np.array(expected)).max() <= (6 if mode in ("LAB", "YCbCr") else 1), shown.tolist()


def test_pixel_modes_of_palettes() -> None:
    image = Image.new("P", (3, 1))
    image.putpalette([*RED, 128, *GREEN, 255, *BLUE, 0], "RGBA")
    for x in range(3):
        image.putpixel((x, 0), x)
    assert pixels(image)[0].tolist() == [[255, 127, 127], [*GREEN], [*WHITE]]
    for transparency in (1, b"\xff\0\xff"):
        indexed = Image.new("P", (2, 1))
        indexed.putpalette([*RED, *GREEN])
        indexed.putpixel((1, 0), 1)
        indexed.info["transparency"] = transparency
        assert pixels(indexed)[0].tolist() == [[*RED], [*WHITE]]
    assert pixels(indexed.convert("PA"))[0].tolist() == [[*RED], [*WHITE]]


ARRAYS: dict[str, tuple[np.ndarray, list[tuple[int, int, int]]]] = {
    "(H, W)": (np.array([[0, 77, 255]], np.uint8), gray(0, 77, 255)),
    "(H, W, 1)": (np.array([[[0], [77]]], np.uint8), gray(0, 77)),
    "RGB": (np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8), [(1, 2, 3), (4, 5, 6)]),
    "RGBA": (np.array([[[*RED, 255], [*RED, 0], [0, 0, 0, 128]]], np.uint8), [RED, WHITE, *gray(127)]),
    "uint16": (np.array([[0, 255, 256, 65535]], np.uint16), gray(0, 0, 1, 255)),
    "uint16, big-endian": (np.array([[0x1234]], ">u2"), gray(0x12)),
    "float of fractions": (np.array([[0.0, 0.25, 1.0]]), gray(0, 64, 255)),
    "float16": (np.array([[0.0, 0.5]], np.float16), gray(0, 128)),
    "float, overshot": (np.array([[-0.1, 1.2]], np.float32), gray(0, 255)),
    "float of 8 bits": (np.array([[0.0, 77.4, 254.6]], np.float32), gray(0, 77, 255)),
    "float of 16 bits": (np.array([[0.0, 32768.0, 65535.0]]), gray(0, 128, 255)),
    "float RGB": (np.array([[[1.0, 0.0, 0.5]]], np.float32), [(255, 0, 128)]),
    "float RGBA": (np.array([[[0.0, 0.0, 0.0, 0.5], [1.0, 0.0, 0.0, 1.0]]]), [*gray(127), RED]),
    "float RGBA, alpha of another range": (np.array([[[255.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]]), [RED, WHITE]),
    "uint16 RGBA": (np.array([[[65535, 0, 0, 65535], [0, 0, 0, 0]]], np.uint16), [RED, WHITE]),
    "one pixel": (np.zeros((1, 1, 3), np.uint8), [BLACK]),
    "a row that could be channels": (np.zeros((3, 1, 3), np.uint8), [BLACK]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_pixel_modes_of_arrays(name: str) -> None:
    array, expected = ARRAYS[name]
    shown = pixels(array)
    assert shown.shape == (*array.shape[:2], 3)
    assert np.abs(shown[0] - np.array(expected)).max() <= 1, shown[0].tolist()


@pytest.mark.parametrize("kind", ["uint16", "float32", "float64"])
@pytest.mark.parametrize("step", [256, 257])
def test_pixel_modes_a_wide_ramp_of_an_array_keeps_its_levels(kind: str, step: int) -> None:
    assert pixels((np.arange(256) * step)[None].astype(kind))[0, :, 0].tolist() == list(range(256))


def test_pixel_modes_of_inks_are_as_viewers_show_them() -> None:
    """A printer's JPEG (Adobe's, inverted, YCCK) and the same picture in RGB; then one with and without that mark."""
    assert np.abs(pixels(PICTURES / "pil_sample_cmyk.jpg") - pixels(PICTURES / "pil_sample_rgb.jpg")).mean() < 6
    data = encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95)
    mark = data.index(b"\xff\xee")
    plain = data[:mark] + data[mark + 2 + int.from_bytes(data[mark + 2 : mark + 4], "big") :]
    for inks in (data, plain, encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "TIFF")):
        assert np.abs(pixels(inks) - RED).max() < 12


def test_pixel_modes_of_inks_go_by_their_profile() -> None:
    """By this one cyan shows as red, which no rule without it would say."""
    inks = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    for profile, expected in (
        (ink_profile(LAB_RED), RED),
        (ink_profile(LAB_RED)[:300], (0, 255, 255)),
        (b"x", (0, 255, 255)),
    ):
        for format_name in ("JPEG", "TIFF"):
            assert np.abs(pixels(encode(inks, format_name, icc_profile=profile)) - expected).max() <= 6


def test_pixel_modes_of_16_bit_files_in_either_byte_order() -> None:
    little, big = (pixels(PICTURES / name) for name in ("16bit.cropped.tif", "16bit.MM.cropped.tif"))
    np.testing.assert_array_equal(little, big)
    assert np.unique(little).tolist() == [1, 2]  # its values go from 291 to 694, of 65535


@pytest.mark.parametrize("format_name", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
def test_pixel_modes_the_first_frame_is_taken(format_name: str) -> None:
    frames = [Image.new("RGB", (8, 8), color) for color in (RED, BLUE, GREEN)]
    options = {"WEBP": {"lossless": True}, "AVIF": {"quality": 100, "subsampling": "4:4:4"}}.get(format_name, {})
    data = encode(frames[0], format_name, save_all=True, append_images=frames[1:], **options)
    for source in (data, Image.open(io.BytesIO(data))):
        assert np.abs(pixels(source) - RED).max() <= 3
    later = Image.open(io.BytesIO(data))
    later.seek(1)
    assert np.abs(pixels(later) - BLUE).max() <= 3, "a PIL image shows the frame it stands at"


def test_pixel_modes_the_first_frame_of_a_transparent_animation() -> None:
    assert np.abs(pixels(PICTURES / "star.gif") - pixels(PICTURES / "star.png")).mean() < 1
    assert pixels(PICTURES / "star.gif")[0, 0].tolist() == [255, 255, 255]

"""Every way in which a file says how it is to be turned, on every kind of source: the upright picture is seen."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from picture_files import PICTURES, chunk, encode, every_source, exif, noise, xmp
from PIL import Image, PngImagePlugin

from photon.images.decode import load_image

LIMIT = 50_000_000


def pixels(source, max_pixels: int = LIMIT) -> np.ndarray:
    return np.asarray(load_image(source, max_pixels=max_pixels)).astype(int)


# How the upright picture is stored, by the EXIF standard: 2 mirrored, 3 upside down, 4 both, 5-8 lying on a side.
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


def text_png(image: Image.Image, key: str, text: str, *, is_international: bool = False) -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_itxt(key, text) if is_international else info.add_text(key, text, zip=True)
    return encode(image, pnginfo=info)


def raw_profile(orientation: int) -> str:
    block = (b"Exif\0\0" + exif(orientation)).hex()
    return f"\nexif\n{len(block) // 2:8}\n" + "\n".join(block[i : i + 72] for i in range(0, len(block), 72))


def late_exif(image: Image.Image, orientation: int) -> bytes:
    return encode(image)[:-12] + chunk(b"eXIf", exif(orientation, ">")) + chunk(b"IEND", b"")


FINEST = {"quality": 100, "subsampling": 0}
CARRIERS: dict[str, Callable[[Image.Image, int], bytes]] = {
    "JPEG EXIF": lambda im, o: encode(im, "JPEG", exif=b"Exif\0\0" + exif(o), **FINEST),
    "JPEG EXIF, big-endian": lambda im, o: encode(
        im, "JPEG", exif=b"Exif\0\0" + exif(o, ">"), quality=100, subsampling=0
    ),
    "JPEG XMP": lambda im, o: encode(im, "JPEG", xmp=xmp(o), **FINEST),
    "PNG eXIf": lambda im, o: encode(im, exif=exif(o)),
    "PNG eXIf after the pixels": late_exif,
    "PNG text": lambda im, o: text_png(im, "Raw profile type exif", raw_profile(o)),
    "PNG XMP": lambda im, o: text_png(im, "XML:com.adobe.xmp", xmp(o).decode(), is_international=True),
    "PNG XMP in single quotes": lambda im, o: text_png(
        im, "XML:com.adobe.xmp", xmp(o).decode().replace('"', "'"), is_international=True
    ),
    "WEBP EXIF": lambda im, o: encode(im, "WEBP", lossless=True, exif=exif(o)),
    "WEBP XMP": lambda im, o: encode(im, "WEBP", lossless=True, xmp=xmp(o)),
    "TIFF tag": lambda im, o: encode(im, "TIFF", tiffinfo={0x0112: o}),
    "AVIF": lambda im, o: encode(im, "AVIF", quality=100, subsampling="4:4:4", exif=exif(o)),
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("carrier", CARRIERS)
def test_upright_frame_from_every_carrier_on_every_source(carrier: str, orientation: int, tmp_path: Path) -> None:
    upright = np.asarray(noise(3, 2).resize((48, 32), Image.Resampling.NEAREST)).astype(int)
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](upright)).astype(np.uint8))
    data = CARRIERS[carrier](stored, orientation)
    tolerance = 12 if carrier.startswith(("JPEG", "AVIF")) else 0
    for source in every_source(data, tmp_path):
        seen = pixels(source)
        assert seen.shape == upright.shape
        assert np.abs(seen - upright).max() <= tolerance, f"{type(source).__name__}"


def test_upright_frame_of_the_worlds_files() -> None:
    """Each is the same picture as the upright file: far nearer to it than to that file turned any other way."""
    series = {
        "hopper.jpg": [f"hopper_orientation_{n}.jpg" for n in range(2, 9)]
        + [f"hopper_orientation_{n}.webp" for n in (5, 6, 7)],
        "g4_orientation_1.tif": ["g4_orientation_6.tif", "g4_orientation_8.tif"],
    }
    for upright_name, names in series.items():
        upright = pixels(PICTURES / upright_name)
        for name in names:
            seen = pixels(PICTURES / name)
            assert seen.shape == upright.shape and np.abs(seen - upright).mean() < 6
            others = [turned(upright) for n, turned in STORED.items() if n > 1]
            assert all(np.abs(seen - other).mean() > 20 for other in others if other.shape == seen.shape), name


def test_upright_frame_from_the_text_of_another_tool() -> None:
    """The tool wrote 3, upside down, as an element of XMP."""
    seen = pixels(PICTURES / "xmp_tags_orientation_exiftool.png")
    assert seen[0, :, 0].tolist() == [255] * 6 + [0, 0] + [255] * 2
    assert seen[9, :, 0].tolist() == [255] * 7 + [0, 0, 255]


def test_exif_goes_before_xmp_and_nonsense_turns_nothing() -> None:
    picture = noise(9, 5)
    np.testing.assert_array_equal(pixels(encode(picture, "WEBP", lossless=True, exif=exif(1), xmp=xmp(6))), picture)
    for orientation in (0, 9, 65535):
        np.testing.assert_array_equal(pixels(encode(picture, exif=exif(orientation))), picture)


def test_arrays_are_upright_as_they_are() -> None:
    picture = np.asarray(noise(9, 5))
    np.testing.assert_array_equal(pixels(picture), picture)

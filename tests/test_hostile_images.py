"""Files and arrays that are wrong, or odd but right: a named error or a valid picture, in bounded time and memory."""

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from picture_files import (
    PICTURES,
    Stream,
    crowded_exif,
    data_url,
    encode,
    every_source,
    jpeg_of_many_scans,
    noise,
    png,
    tiff_of_one_tile,
)

from photon.errors import ImageError
from photon.images.decode import FORMATS, load_image
from photon.images.formats import MAX_JPEG_SCANS

LIMIT = 50_000_000


def pixels(source, max_pixels: int = LIMIT) -> np.ndarray:
    return np.asarray(load_image(source, max_pixels=max_pixels)).astype(int)


def claiming(width: int, height: int) -> bytes:
    return png((width, height), 8, 2, [b""])


HOSTILE: dict[str, tuple[object, str]] = {
    "empty": (b"", "bytes of length 0: empty"),
    "text": (b"plain text", f"not an image .*{', '.join(FORMATS)}"),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
    "a program": (b"MZ\x90\0" + bytes(200), "not an image"),
    "HEIC": (PICTURES / "hopper.heif", "hopper.heif: not an image"),
    "cut": (PICTURES / "truncated_jpeg.jpg", "truncated_jpeg.jpg: damaged or truncated"),
    "mangled": (PICTURES / "broken.png", "broken.png: damaged or truncated"),
    "text that unpacks to megabytes": (PICTURES / "png_decompression_dos.png", "png_decompression_dos.png: damaged"),
    "65535 samples a pixel": (PICTURES / "too_many_samples.tif", "too_many_samples.tif: damaged"),
    "a GIF of 4 billion pixels": (PICTURES / "decompression_bomb.gif", "too many pixels, the limit is"),
    "a PNG of 3.6 billion pixels": (claiming(60_000, 60_000), "60000 x 60000 = 3600000000 pixels, the limit is"),
    "a wide claim": (claiming(2**31 - 1, 1), "2147483647 x 1 = "),
    "a small TIFF in a large tile": (tiff_of_one_tile(16, 10_000), "10000 x 10000 = 100000000 pixels, the limit is"),
    "a JPEG of 10,000 scans": (jpeg_of_many_scans(512, 10_000), f"more than {MAX_JPEG_SCANS} scans"),
    "no width": (b"P5 0 5 255\n", "no pixels|damaged"),
    "a negative size": (b"P6 -1 -1 255\n   ", "damaged"),
    "base64 of text": (data_url(b"plain text"), "data URL of 38 characters: not an image"),
    "base64 of nothing": ("data:image/png;base64,", "data URL of 22 characters: empty"),
    "odd base64": ("data:image/png;base64,!!!!", "is not base64"),
    "cut base64": ("data:image/png;base64,iVBORw0KGgoAA", "is not base64"),
    "padding inside": ("data:image/png;base64,iVBO=Rw0KGgo", "is not base64"),
    "letters beyond ASCII": ("data:image/png;base64,é", "is not base64"),
    "no comma": ("data:image/png;base64", "has no comma"),
    "a link": ("https://example.com/a.png", "https://example.com/a.png: links are not fetched"),
    "a link to a file": ("file:///etc/passwd", "links are not fetched"),
    "no path": ("", "path of an image is empty"),
    "a device that never ends": ("/dev/zero", "/dev/zero: not an image"),
    "text opened as text": (io.StringIO("x"), 'StringIO object: is open as text; open it in binary mode \\("rb"\\)'),
    "a number": (7, "must be a path, .*got int"),
    "not finite": (np.array([[0.5, np.nan]]), "not finite"),
    "below zero": (np.array([[-1.0, 1.0]]), "values from -1 to 1 must lie in 0..1"),
    "one axis": (np.zeros(9, np.uint8), r"pass array.tobytes\(\)"),
    "channels first": (np.zeros((3, 5, 5), np.uint8), r"array.transpose\(1, 2, 0\)"),
    "int64": (np.zeros((5, 5, 3), np.int64), r"dtype int64: must have .*array.astype\(numpy.uint8\)"),
    "two channels": (np.zeros((5, 5, 2), np.uint8), r"shape \(5, 5, 2\) and dtype uint8: must have"),
    "five axes": (np.zeros((1, 1, 5, 5, 3), np.uint8), r"shape \(1, 1, 5, 5, 3\)"),
    "complex": (np.zeros((5, 5), np.complex64), "dtype complex64: must have"),
    "an array without pixels": (np.zeros((0, 5, 3), np.float32), r"no pixels \(5 x 0\)"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow tells of some damage
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_images_are_named_errors_in_bounded_time(name: str) -> None:
    source, reason = HOSTILE[name]
    started = time.perf_counter()
    with pytest.raises(ImageError, match=reason) as caught:
        load_image(source, max_pixels=LIMIT)  # type: ignore[arg-type]
    assert time.perf_counter() - started < 2 and len(str(caught.value)) < 400
    assert load_image(PICTURES / "hopper.jpg", max_pixels=LIMIT).size == (128, 128), "the next one is read"


# Read, but not a gigabyte for the tags that all point at one megabyte.
CROWDED = [
    png((1, 1), 8, 0, [b"\0"], eXIf=crowded_exif(1000, 1 << 20)),
    encode(noise(1, 1), "WEBP", exif=crowded_exif(1000, 1 << 20)),
]


class Broken(Stream):
    def __init__(self, answer: object) -> None:
        self._answer = answer

    def read(self, size: int = -1, /):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_hostile_file_objects(tmp_path: Path) -> None:
    data = encode(noise(20, 10))
    closed = io.BytesIO(data)
    closed.close()
    cases = [
        (closed, "BytesIO object: cannot be read: I/O operation on closed file"),
        (Broken(OSError("the disk is gone")), "Broken object: cannot be read: the disk is gone"),
        (Broken("text"), "must give bytes .*got str"),
        (Broken(None), "must give bytes .*got NoneType"),
        (Stream(b""), "Stream object: empty"),
        (Stream(b"plain text" * 99), "not an image"),
        (Stream(data[:-40]), "damaged or truncated"),
        (Broken(b"\x89PNG\r\n\x1a\n" + bytes(1 << 22)), "longer than"),  # it never ends
    ]
    for source, reason in cases:
        with pytest.raises(ImageError, match=reason):
            load_image(source, max_pixels=1000)
    (tmp_path / "x.png").write_bytes(data)
    with (tmp_path / "x.png").open() as text, pytest.raises(ImageError, match="file object .*x.png: is open as text"):
        load_image(text, max_pixels=1000)  # type: ignore[arg-type]


def test_a_frame_larger_than_its_screen_stays_within_the_limit() -> None:
    """The second frame claims billions of pixels; the first, which is the one used, is small."""
    assert load_image(PICTURES / "decompression_bomb_extents.gif", max_pixels=10_000).size == (100, 100)


def test_jpegs_of_ordinary_scans_are_read() -> None:
    """Progressive ones, and one with another file's bytes after its end, as phones append a film."""
    photo = noise(64, 64).resize((256, 256))
    progressive = encode(photo, "JPEG", progressive=True)
    assert pixels(progressive + bytes([0xFF, 0xDA, 0, 2]) * 10_000).shape == (256, 256, 3)
    assert load_image(jpeg_of_many_scans(64, MAX_JPEG_SCANS - 1), max_pixels=LIMIT).size == (64, 64)


def test_a_tile_within_the_limit_is_read() -> None:
    assert pixels(tiff_of_one_tile(16, 64)).tolist() == np.zeros((16, 16, 3)).tolist()


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (499, 1), (1093, 5), (31, 639)])
def test_tiny_and_extreme_pictures_are_valid(size: tuple[int, int], tmp_path: Path) -> None:
    picture = noise(*size)
    for source in (*every_source(encode(picture), tmp_path), np.asarray(picture)):
        np.testing.assert_array_equal(pixels(source), np.asarray(picture))


@pytest.mark.parametrize(
    "url",
    [
        lambda text: f"data:image/png;base64,{text}",
        lambda text: f"data:image/png;base64,{text.rstrip('=')}",
        lambda text: f"data:image/png;base64,{text.rstrip('=')}====",
        lambda text: f"data:image/jpeg;base64,{text}",
        lambda text: f"data:text/plain;charset=utf-8;base64,{text}",
        lambda text: f"data:;base64,{text}",
        lambda text: f"  DATA:image/png;BASE64 , {text} \n",
        lambda text: "data:image/png;base64," + "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76)),
        lambda text: "data:image/png;base64," + "".join(f"%{ord(c):02x}" for c in text),
        lambda text: "data:image/png;base64," + text.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
        lambda text: "data:image/png;base64," + text.replace("+", "-").replace("/", "_"),
    ],
    ids=["plain", "unpadded", "overpadded", "wrong type", "other type", "no type", "blanks", "lines", "%", "%+/", "-_"],
)  # fmt: skip
def test_data_urls_as_they_come(url: Callable[[str], str]) -> None:
    for width in (19, 20, 21):  # so that every length of padding occurs
        picture = noise(width, 10)
        text = data_url(encode(picture)).partition(",")[2]
        np.testing.assert_array_equal(pixels(url(text)), np.asarray(picture))


def test_a_data_url_without_base64() -> None:
    picture = noise(5, 4)
    url = "data:image/png," + "".join(f"%{byte:02X}" for byte in encode(picture))
    np.testing.assert_array_equal(pixels(url), np.asarray(picture))


def test_hostile_images_take_little_memory() -> None:
    """All of them in a process of their own, whose peak is compared with that of reading one ordinary picture."""
    script = """
import resource
from photon.errors import ImageError
from photon.images.decode import load_image
from test_hostile_images import CROWDED, HOSTILE, PICTURES

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

load_image(PICTURES / "hopper.jpg", max_pixels=50_000_000)
before = peak()
for source, _ in HOSTILE.values():
    try:
        load_image(source, max_pixels=50_000_000)
    except ImageError:
        pass
for data in CROWDED:
    assert load_image(data, max_pixels=50_000_000).size == (1, 1)
print(peak() - before)
"""
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tests,
        env={**os.environ, "PYTHONPATH": str(tests.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 64, "megabytes"

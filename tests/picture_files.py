"""Picture files written by hand, byte by byte where a library would not write them, for the tests of what is read."""

import base64
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

PICTURES = Path(__file__).parent / "data" / "pictures"


def encode(image: Image.Image, format_name: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(width * 7919 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.frombytes("RGB", (width, height), pixels.tobytes())


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(size: tuple[int, int], depth: int, color: int, rows: list[bytes], **chunks: bytes) -> bytes:
    """`rows` packed as PNG packs them; `chunks` (PLTE, tRNS) go before the pixels, those ending in _ after them."""
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, color, 0, 0, 0))
    data += b"".join(chunk(name.encode(), body) for name, body in chunks.items() if not name.endswith("_"))
    data += chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    data += b"".join(chunk(name[:-1].encode(), body) for name, body in chunks.items() if name.endswith("_"))
    return data + chunk(b"IEND", b"")


def exif(orientation: int, order: str = "<") -> bytes:
    """An EXIF block (TIFF structure) that holds the orientation alone, in either byte order."""
    head = {"<": b"II", ">": b"MM"}[order] + struct.pack(f"{order}HI", 42, 8)
    return head + struct.pack(f"{order}HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)


def xmp(orientation: int) -> bytes:
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="{orientation}"/></x:xmpmeta>'.encode()
    )


def gif(screen: tuple[int, int], frame: tuple[int, int, int, int], indices: list[int]) -> bytes:
    """Red, green, blue, black are 0 to 3; one frame at (left, top, width, height); each index between two clears."""
    data = b"GIF89a" + struct.pack("<HHBBB", *screen, 0xF1, 0, 0) + bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0])
    codes = [code for index in indices for code in (4, index)] + [5]  # code size 2: 4 clears, 5 ends, 3 bits each
    packed = sum(code << (3 * place) for place, code in enumerate(codes))
    body = packed.to_bytes(-(-3 * len(codes) // 8), "little")
    return data + b"," + struct.pack("<HHHHB", *frame, 0) + bytes([2, len(body)]) + body + b"\0;"


def jpeg_of_many_scans(side: int, num_scans: int) -> bytes:
    """A gray progressive JPEG whose passes after the first say nothing, 32 bytes each."""

    def segment(marker: int, body: bytes) -> bytes:
        return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body

    def bits(text: str) -> bytes:
        text += "1" * (-len(text) % 8)
        return int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\0")

    num_blocks = (-(-side // 8)) ** 2
    one_code = bytes([1] + [0] * 15)
    data = b"\xff\xd8" + segment(0xDB, b"\0" + bytes([1]) * 64)
    data += segment(0xC2, struct.pack(">BHHB", 8, side, side, 1) + bytes([1, 0x11, 0]))
    data += segment(0xC4, b"\x00" + one_code + b"\x00") + segment(0xC4, b"\x10" + one_code + b"\xe0")
    data += segment(0xDA, bytes([1, 1, 0, 0, 0, 0])) + bits("0" * num_blocks)
    runs = -(-num_blocks // 32767)
    return data + (segment(0xDA, bytes([1, 1, 0, 1, 63, 0])) + bits(("0" + "1" * 14) * runs)) * num_scans + b"\xff\xd9"


def crowded_exif(num_tags: int, size: int) -> bytes:
    """An EXIF block whose tags all have the same `size` bytes for their value."""
    entries = b"".join(struct.pack("<HHII", 1000 + i, 7, size, 0) for i in range(num_tags))
    return b"II*\0" + struct.pack("<IH", 8, num_tags) + entries + bytes(4 + size)


def tiff(tags: dict[int, int], pixels: bytes) -> bytes:
    """A TIFF whose tags are whole numbers; the one of value -1 is where the pixels lie."""
    start = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, start if n == -1 else n) for tag, n in sorted(tags.items()))
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + pixels


def tiff_of_one_tile(picture_side: int, tile_side: int) -> bytes:
    """Black gray, deflated: of a large tile a thousandth of its bytes."""
    packed = zlib.compress(bytes(tile_side * tile_side), 9)
    sizes = {256: picture_side, 257: picture_side, 322: tile_side, 323: tile_side, 324: -1, 325: len(packed)}
    return tiff({**sizes, 258: 8, 259: 8, 262: 1, 277: 1}, packed)


def ink_profile(cyan_lab: tuple[int, int, int]) -> bytes:
    """An ICC profile of inks: paper is white, K is black, C shows as `cyan_lab` (8-bit CIELAB), M and Y as nothing."""
    fixed = [round(n * 65536) for n in (0.9642, 1, 0.8249)]  # the light it is for, D50
    corners = [(c, k) for c in (0, 1) for _ in range(4) for k in (0, 1)]
    grid = b"".join(bytes((0, 128, 128) if k else cyan_lab if c else (255, 128, 128)) for c, k in corners)
    unity = struct.pack(">9i", *(65536 * (i % 4 == 0) for i in range(9)))
    table = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + unity + bytes(range(256)) * 4 + grid + bytes(range(256)) * 3
    head = struct.pack(">II4s4s4s12s4s", 144 + len(table), 0x02100000, b"prtr", b"CMYK", b"Lab ", bytes(12), b"acsp")
    head = head[:4] + bytes(4) + head[4:]
    head = head + bytes(68 - len(head)) + struct.pack(">3i", *fixed)
    return head + bytes(128 - len(head)) + struct.pack(">I4sII", 1, b"A2B0", 144, len(table)) + table


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


class Stream:
    """A pipe, as far as a reader can tell: bytes in small pieces, no way back."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(min(size, 1000) if size >= 0 else 1000)

    def seekable(self) -> bool:
        return False


def every_source(data: bytes, folder: Path) -> Iterator[object]:
    """One file in every form that a caller may hold it in."""
    path = folder / "a picture.dat"  # the name says nothing about the format
    path.write_bytes(data)
    yield from (path, str(path), data, bytearray(data), memoryview(data), data_url(data), io.BytesIO(data))
    yield Stream(data)
    yield path.open("rb")
    yield Image.open(io.BytesIO(data))
    loaded = Image.open(io.BytesIO(data))
    loaded.load()
    yield loaded
    yield loaded.copy()

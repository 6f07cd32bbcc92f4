"""The packs of training pictures: small pictures one after another in NAME.bin, their index in NAME.json.

atlas.json: {"nouns": [...], "colours": [...], "held_out": [styles never trained on], "sprites": [row, ...]} with
row = {"noun": index, "style": str, "emoji": label, "box": [left, top, right, bottom] in the 112x112 cell,
"colour": a word of colours or null, "offset": bytes, "length": bytes}. The pictures are WebP with alpha.
photos.json is as atlas.json, for sprites that only evaluation uses.
backgrounds.json: {"backgrounds": [{"name", "author", "licence", "offset", "length"}, ...]}; JPEGs of 512x512.
Needs only numpy and Pillow.
"""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image


def write_pack(folder: Path, name: str, *, head: dict, rows_name: str, entries: list[tuple[dict, bytes]]) -> None:
    """Write folder/NAME.bin and folder/NAME.json from (index row, encoded picture) pairs, in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, offset = [], 0
    for row, data in entries:
        rows.append({**row, "offset": offset, "length": len(data)})
        offset += len(data)
    (folder / f"{name}.bin").write_bytes(b"".join(data for _, data in entries))
    index = {**head, rows_name: rows}
    (folder / f"{name}.json").write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")))


def load_atlas(folder: Path | str, *, pack: str = "atlas", num_threads: int = 16) -> tuple[np.ndarray, dict]:
    """All sprites as uint8 [N, 4, 112, 112], RGBA with the colours premultiplied by alpha, and the index."""
    data, index = _read_pack(Path(folder), pack)
    return _decode_all(data, index["sprites"], decode=_premultiplied, num_threads=num_threads), index


def load_backgrounds(folder: Path | str, *, num_threads: int = 16) -> tuple[np.ndarray, dict]:
    """All backgrounds as uint8 [N, 3, 512, 512], RGB, and the index."""
    data, index = _read_pack(Path(folder), "backgrounds")
    return _decode_all(data, index["backgrounds"], decode=_rgb, num_threads=num_threads), index


def _read_pack(folder: Path, name: str) -> tuple[bytes, dict]:
    return (folder / f"{name}.bin").read_bytes(), json.loads((folder / f"{name}.json").read_text())


def _decode_all(data: bytes, rows: list[dict], *, decode, num_threads: int) -> np.ndarray:
    def one(row: dict) -> np.ndarray:
        picture = Image.open(io.BytesIO(data[row["offset"] : row["offset"] + row["length"]]))
        return decode(picture).transpose(2, 0, 1)

    with ThreadPoolExecutor(num_threads) as pool:
        return np.stack(list(pool.map(one, rows)))


def _premultiplied(picture: Image.Image) -> np.ndarray:
    rgba = np.asarray(picture.convert("RGBA"), dtype=np.uint16)
    colours = (rgba[..., :3] * rgba[..., 3:] + 127) // 255
    return np.concatenate([colours, rgba[..., 3:]], axis=-1).astype(np.uint8)


def _rgb(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.convert("RGB"))

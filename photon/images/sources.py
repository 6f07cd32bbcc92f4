"""Encoded bytes from where the caller keeps them: file objects and data URLs. Not what the bytes mean.

Nothing is read before its first bytes are known to be an image's, nor beyond a limit; the caller's file stays open.
"""

from __future__ import annotations

import binascii
import io
import re
from typing import Any
from urllib.parse import unquote_to_bytes

from photon.errors import ImageError
from photon.images.formats import PREFIX_BYTES, find_format

_CHUNK = 1 << 20
_BLANKS = b" \t\r\n\f\v"
_LINK = re.compile(r"\s*(https?|ftp|file)://", re.IGNORECASE)
_DATA_URL = re.compile(r"\s*data:", re.IGNORECASE)
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def short(name: str) -> str:
    return name if len(name) <= 200 else f"{name[:197]}..."


def is_data_url(text: str) -> bool:
    return _DATA_URL.match(text) is not None


def check_is_no_link(text: str) -> None:
    if _LINK.match(text):
        raise ImageError(f"{short(text)}: links are not fetched; download the picture and pass its path or its bytes")


def describe_file(file: Any) -> str:
    name = getattr(file, "name", None)
    return f"file object {short(name)}" if isinstance(name, str) else f"{type(file).__name__} object"


def rewind(file: Any, name: str) -> None:
    """To the start, where the file can do that; otherwise it is read from where it stands."""
    if isinstance(file, io.TextIOBase):
        raise ImageError(f'{name}: is open as text; open it in binary mode ("rb")')
    seekable = getattr(file, "seekable", None)
    try:
        if hasattr(file, "seek") and (seekable is None or seekable()):
            file.seek(0)
    except (OSError, ValueError) as error:  # closed, among others
        raise ImageError(f"{name}: cannot be read: {error}") from error


def read_whole(file: Any, name: str, *, max_bytes: int) -> io.BytesIO:
    """All that `file` (anything with `read(n)`) has to give. ImageError: no image, more than `max_bytes`, no bytes."""
    whole = io.BytesIO()
    is_known = False
    while chunk := _read(file, name):
        whole.write(chunk)
        if not is_known and whole.tell() >= PREFIX_BYTES:
            find_format(bytes(whole.getbuffer()[:PREFIX_BYTES]), name)
            is_known = True
        if whole.tell() > max_bytes:
            raise ImageError(f"{name}: longer than {max_bytes} bytes, too long for a picture within the pixel limit")
    return whole


def _read(file: Any, name: str) -> bytes:
    try:
        chunk = file.read(_CHUNK)
    except (OSError, ValueError) as error:
        raise ImageError(f"{name}: cannot be read: {error}") from error
    if not isinstance(chunk, bytes | bytearray | memoryview):
        raise ImageError(f'{name}: its read() must give bytes (mode "rb"), got {type(chunk).__name__}')
    return bytes(chunk)


def decode_data_url(url: str) -> tuple[bytes, str]:
    """(the bytes it holds, its name for messages). The media type is not looked at: the content decides.

    Base64 may lack its padding, hold blanks and line breaks, be percent-encoded and use the URL-safe alphabet.
    """
    name = f"data URL of {len(url)} characters"
    head, comma, body = url.partition(",")
    if not comma:
        raise ImageError(f"{name}: has no comma; data:image/png;base64,... would be right")
    parameters = [parameter.strip().lower() for parameter in head.split(";")[1:]]
    data = unquote_to_bytes(body)
    if "base64" not in parameters:
        return data, name
    data = data.translate(_URL_SAFE, _BLANKS).rstrip(b"=")
    try:
        return binascii.a2b_base64(data + b"=" * (-len(data) % 4), strict_mode=True), name
    except binascii.Error as error:
        raise ImageError(f"{name}: is not base64: {str(error).lower()}") from None

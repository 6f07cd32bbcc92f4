"""Fetches the archives named in sprite_sources.toml, each by its own package client, and reads members out of them.

Nothing is unpacked onto the disk and no network address is known here: npm, pip and apt find the packages.
Invariant: no byte of an archive is used before its SHA-256 has been checked.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE / "build"


@dataclass(frozen=True)
class Source:
    """One set of pictures; the fields are those of sprite_sources.toml."""

    style: str
    client: str
    package: str
    version: str
    archive: str
    sha256: str
    title: str
    author: str
    licence: str
    link: str
    use: str
    ships: bool


def load_sources() -> dict[str, Source]:
    """Every source by its style, in the order of the file."""
    rows = tomllib.loads((HERE / "sprite_sources.toml").read_text())["source"]
    return {row["style"]: Source(**row) for row in rows}


def fetch(source: Source, folder: Path = BUILD / "downloads") -> Path:
    """The source's archive on this disk, downloaded unless it is there already.

    Raises ValueError when its hash is not the pinned one, CalledProcessError when the client fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / source.archive
    if not path.exists():
        subprocess.run(_client_command(source), cwd=folder, check=True)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != source.sha256:
        raise ValueError(f"{path} has SHA-256 {found}, but {source.sha256} is pinned in sprite_sources.toml")
    return path


def _client_command(source: Source) -> list[str]:
    match source.client:
        case "npm":
            return ["npm", "pack", "--silent", f"{source.package}@{source.version}"]
        case "apt":
            return ["apt-get", "download", f"{source.package}={source.version}"]
        case "pip":
            pip = [sys.executable, "-m", "pip", "download", "--no-deps"]
            wheel_of = ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux_2_28_x86_64"]
            return [*pip, *wheel_of, f"{source.package}=={source.version}"]
    raise ValueError(f"client is {source.client!r}, but must be npm, apt or pip")


def read_tar(path: Path, wanted: set[str]) -> dict[str, bytes]:
    """The wanted members of a .tgz, by name; one pass, since a compressed tar cannot be read at random."""
    members = {}
    with tarfile.open(path) as tar:
        for member in tar:
            if member.name in wanted:
                file = tar.extractfile(member)
                assert file is not None, member.name
                members[member.name] = file.read()
    if missing := wanted - members.keys():
        raise ValueError(f"{path} lacks {sorted(missing)}")
    return members


def read_zip(path: Path, names: list[str]) -> list[bytes]:
    """The named members of a zip (a wheel is one), in the given order."""
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in names]

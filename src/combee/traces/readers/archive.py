"""Archives within bounds, whatever names they hold: members of a zip in memory, or all files in a folder for a while.

Zstandard (method 93) is read where Python has it: 3.14 and later, or with `backports.zstd` or `zstandard` installed.
"""

from __future__ import annotations

import importlib
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from combee.traces.readers.shape import open_regular
from combee.traces.readers.source import Source

_STORED, _DEFLATED, _ZSTD = 0, 8, 93
_DIRECTORY_BYTES = 64 << 20
_MOST_GROWTH = 250  # an archive may unpack to this many times its size in all, and 64 MiB more
_ZSTD_HINT = "packed with Zstandard, which this Python cannot read: install backports.zstd or use Python 3.14"

_Unpack = Callable[[bytes, int], bytes]


def members(source: Source, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the wanted members in the order of the archive; what cannot be read is named."""
    try:
        with open_regular(source.path) as file:
            size = file.seek(0, 2)
            if _directory_size(file, size) > _DIRECTORY_BYTES:
                source.skip("an archive with too large a directory")
                return
            with zipfile.ZipFile(file) as archive:
                yield from _contents(source, file, archive.infolist(), wanted, size)
    except zipfile.BadZipFile as error:
        source.skip(f"not a whole zip archive: {error}")
    except (OSError, ValueError, NotImplementedError, struct.error) as error:
        source.skip(f"an archive that cannot be read: {error}")


@contextmanager
def unpacked(source: Source) -> Iterator[Path]:
    """Unpack a zip or tar archive into a folder that is gone afterwards; what cannot be unpacked is named."""
    with TemporaryDirectory(prefix="combee-") as name:
        folder = Path(name)
        for member, data in _tar(source) if is_tar(source.path) else members(source, _is_below):
            target = folder.joinpath(*PurePosixPath(member).parts)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            except OSError as error:
                source.skip(f"member {member[:200]!r}: cannot be unpacked: {error.strerror or error}")
        yield folder


def _is_below(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\\" not in name and ":" not in name


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, also one packed with gzip."""
    try:
        with open_regular(path) as file:
            return file.read(512)[257:262] == b"ustar"
    except (OSError, EOFError, zlib.error):
        return False


def _tar(source: Source) -> Iterator[tuple[str, bytes]]:
    left = source.path.stat().st_size * _MOST_GROWTH + (64 << 20)
    try:
        with open_regular(source.path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                limit = min(source.limits.record, left)
                if not member.isfile():
                    continue
                if not _is_below(member.name) or member.size > limit:
                    why = "larger than is read" if _is_below(member.name) else "a name that leads out of the archive"
                    source.skip(f"member {member.name[:200]!r}: {why}")
                    continue
                opened = archive.extractfile(member)
                data = b"" if opened is None else opened.read(limit + 1)
                left -= len(data)
                yield member.name, data
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        source.skip(f"an archive that cannot be read: {error}")


def _contents(
    source: Source,
    file: BufferedReader,
    infos: list[zipfile.ZipInfo],
    wanted: Callable[[str], bool],
    size: int,
) -> Iterator[tuple[str, bytes]]:
    left = size * _MOST_GROWTH + (64 << 20)
    unpackers: dict[int, _Unpack | None] = {}
    for info in infos:
        name = info.filename
        if name.endswith("/") or not wanted(name):
            if ".." in PurePosixPath(name).parts or name.startswith("/"):
                source.skip(f"member {name[:200]!r}: a name that leads out of the archive")
            continue
        limit = min(source.limits.record, left)
        if info.compress_type not in unpackers:
            unpackers[info.compress_type] = _unpacker(info.compress_type)
        unpack = unpackers[info.compress_type]
        if unpack is None:
            reason = _ZSTD_HINT if info.compress_type == _ZSTD else f"packing method {info.compress_type} is not known"
            source.skip(f"members {reason}")
        elif info.flag_bits & 1:
            source.skip(f"member {name[:200]!r}: encrypted")
        else:
            data = _content(source, file, info, unpack, limit)
            if data is not None:
                left -= len(data)
                yield name, data


def _content(source: Source, file: BufferedReader, info: zipfile.ZipInfo, unpack: _Unpack, limit: int) -> bytes | None:
    shown = repr(info.filename[:200])
    if info.file_size > limit or info.compress_size > limit:
        source.skip(f"member {shown}: larger than is read ({limit >> 20} MiB left)")
        return None
    try:
        file.seek(info.header_offset)
        header = file.read(30)
        if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
            source.skip(f"member {shown}: no header where the directory says")
            return None
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        file.seek(info.header_offset + 30 + name_length + extra_length)
        data = unpack(file.read(info.compress_size), limit)
    except Exception as error:  # noqa: BLE001 - each packing library has errors of its own; the member is named
        source.skip(f"member {shown}: damaged ({type(error).__name__}: {error})")
        return None
    if len(data) > limit:
        source.skip(f"member {shown}: unpacks to more than is read ({limit >> 20} MiB left)")
        return None
    if zlib.crc32(data) != info.CRC:
        source.skip(f"member {shown}: damaged (checksum)")
        return None
    return data


def _inflate(data: bytes, limit: int) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, limit + 1)


def _unpacker(method: int) -> _Unpack | None:
    if method == _STORED:
        return lambda data, _limit: data
    if method == _DEFLATED:
        return _inflate
    return _zstd() if method == _ZSTD else None


def _zstd() -> _Unpack | None:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return lambda data, limit: module.ZstdDecompressor().decompress(data, max_length=limit + 1)
    try:
        other = importlib.import_module("zstandard")
    except ImportError:
        return None

    def unpack(data: bytes, limit: int) -> bytes:
        with other.ZstdDecompressor().stream_reader(data) as stream:
            found: bytes = stream.read(limit + 1)
        return found

    return unpack


def _directory_size(file: BufferedReader, size: int) -> int:
    """Return the bytes of the directory as the end record states them (0 where there is none)."""
    start = max(0, size - (1 << 16) - 22 - 76)
    file.seek(start)
    tail = file.read(size - start)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 16 > len(tail):
        return 0
    found: int = struct.unpack_from("<L", tail, at + 12)[0]
    wide = tail.rfind(b"PK\x06\x06", 0, at)
    if found == 0xFFFFFFFF and wide >= 0 and wide + 48 <= len(tail):
        found = struct.unpack_from("<Q", tail, wide + 40)[0]
    return found

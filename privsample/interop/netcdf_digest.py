"""A digest of the bytes of a netCDF4 file, at its end, where HDF5 does not look.

HDF5 reads some damaged files without an error, and others never: one changed byte can keep it busy for ever. So a
file is compared with its digest before HDF5 opens it. A program that changes the file cuts the digest off, or writes
over it.
"""

import hashlib
from typing import BinaryIO

_MARK = b"\nprivsample sha256 "
_LENGTH = len(_MARK) + 64 + 1  # with 64 digits and the end of the line
_BLOCK = 1 << 20


def append_digest(file: BinaryIO) -> None:
    """Write the SHA-256 of a file, which is open for reading and writing, at its end."""
    length = file.seek(0, 2)
    line = _MARK + _sha256(file, length) + b"\n"
    file.seek(length)
    file.write(line)
    file.flush()


def has_own_digest(file: BinaryIO) -> bool:
    """False if there is a digest at the end of a file that is not that of its other bytes; True without a digest."""
    length = file.seek(0, 2) - _LENGTH
    file.seek(max(length, 0))
    line = file.read()
    return length < 0 or not line.startswith(_MARK) or line[len(_MARK) : -1] == _sha256(file, length)


def _sha256(file: BinaryIO, length: int) -> bytes:
    """The SHA-256 of the first bytes of a file, as hexadecimal digits."""
    found = hashlib.sha256()
    file.seek(0)
    while length > 0:
        block = file.read(min(length, _BLOCK))
        if not block:
            break
        found.update(block)
        length -= len(block)
    return found.hexdigest().encode()

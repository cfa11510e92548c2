"""Generators over the operating system's entropy, cryptographic throughout."""

import ctypes
import os
import secrets
import threading
from collections.abc import Callable, Iterator

import numpy as np

_CAPSULE = b"BitGenerator"


class _Interface(ctypes.Structure):
    """numpy's C interface `bitgen_t`: a state and four functions of it."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
        ("next_uint32", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)),
        ("next_double", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
        ("next_raw", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
    )


def _words() -> Iterator[int]:
    while True:
        yield from np.frombuffer(os.urandom(1 << 15), dtype=np.uint64).tolist()


def _uninterrupted(read: Callable[[], int]) -> Callable[[], int]:
    """An interrupt inside a callback would be answered with a zero word; draw again instead."""

    def word() -> int:
        while True:
            try:
                return read()
            except KeyboardInterrupt:
                continue

    return word


class SystemBits:
    """A numpy bit generator whose every word comes from `os.urandom`: slow (microseconds a word) and needs nothing."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        word = _uninterrupted(_words().__next__)
        kinds = [kind for _, kind in _Interface._fields_[1:]]
        functions = (
            lambda _: word(),
            lambda _: word() >> 32,
            lambda _: (word() >> 11) * 2.0**-53,
            lambda _: word(),
        )
        self._interface = _Interface(None, *(kind(f) for kind, f in zip(kinds, functions, strict=True)))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = make(ctypes.addressof(self._interface), _CAPSULE, None)

    def spawn(self, count: int) -> list["SystemBits"]:
        """Independent bit generators; each reads the operating system by itself."""
        return [SystemBits() for _ in range(count)]


def system_generator() -> np.random.Generator:
    """A fresh generator: AES in counter mode keyed by the system where `randomgen` is installed, else raw words."""
    try:
        from randomgen import AESCounter
    except ImportError:
        return np.random.Generator(SystemBits())  # type: ignore[arg-type]
    return np.random.Generator(AESCounter(key=secrets.randbits(128)))

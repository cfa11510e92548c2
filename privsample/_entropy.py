"""Random generators that read the operating system's entropy, cryptographically secure throughout.

A release without a caller's generator assumes nothing about its random words but that the operating system's are fair
and secret. NumPy's own bit generators, even with a fresh seed, would add an assumption: some outputs of a PCG64 reveal
its state, and with it the noise of the other outputs. So there are two sources: AES in counter mode of randomgen (the
extra `secure`), and `SystemBits`, which needs no package and is slower.
"""

import ctypes
import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
_CAPSULE = b"BitGenerator"


class _Interface(ctypes.Structure):
    """NumPy's C interface `bitgen_t`: a state and four functions of it."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
        ("next_uint32", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)),
        ("next_double", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
        ("next_raw", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
    )


class SystemBits:
    """A NumPy bit generator whose words all come from `os.urandom`: slow (microseconds a word), without dependencies.

    NumPy ignores an exception raised while it fetches a word and would continue with zeros. A failure is therefore
    recorded in `failed`. Draws go through `draw_with_entropy_check`, which runs them where no signal handler can
    interrupt and then checks the flag.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failed = False
        self._words: list[int] = []
        self._process = os.getpid()
        word = self._word
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

    def block(self, count: int) -> NDArray[np.uint64]:
        """Random words, shape (count,), at the speed of the operating system. Raises OSError without entropy."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def _word(self) -> int:
        """One random word of 64 bits; 0 after a failure, which is recorded in `failed`."""
        try:
            if not self._words or self._process != os.getpid():  # a forked process must not reuse its parent's words
                self._process = os.getpid()
                self._words = self.block(1 << 12).tolist()
            return self._words.pop()
        except BaseException:  # noqa: BLE001 - on any exception the draw must be discarded
            self.failed = True
            return 0

    def spawn(self, count: int) -> list["SystemBits"]:
        """Independent bit generators, each of which reads the operating system's entropy."""
        return [SystemBits() for _ in range(count)]


def system_generator() -> np.random.Generator:
    """A new generator: AES in counter mode with a system key if `randomgen` is installed, otherwise SystemBits."""
    try:
        from randomgen import AESCounter
    except ImportError:
        return np.random.Generator(SystemBits())  # type: ignore[arg-type]
    return np.random.Generator(AESCounter(key=secrets.randbits(128)))


def draw_with_entropy_check(rng: np.random.Generator, draw: Callable[[], T]) -> T:
    """Return draw(), or raise OSError if the operating system's entropy failed during the draw.

    Signal handlers run in the main thread only. A draw from SystemBits therefore runs in another thread, so that an
    interrupt ends the release and never a single word.
    """
    if not isinstance(rng.bit_generator, SystemBits):
        return draw()
    with ThreadPoolExecutor(max_workers=1) as apart:
        result = apart.submit(draw).result()
    check_entropy(rng)
    return result


def check_entropy(rng: np.random.Generator) -> None:
    """Raise OSError if the operating system provided no entropy for any word of this generator so far."""
    if isinstance(rng.bit_generator, SystemBits) and rng.bit_generator.failed:
        raise OSError("the operating system gave no entropy; nothing was released")

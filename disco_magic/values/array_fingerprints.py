"""Fingerprints of arrays and tensors: of their elements, with dtype and shape."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from disco_magic.values.digests import digest, digest_of, has_gaps
from disco_magic.values.kinds import is_of_framework, is_tensor, name_of
from disco_magic.values.tensors import bits_of

if TYPE_CHECKING:
    import numpy as np

# hashlib keeps the interpreter's lock up to so many bytes.
_KEPT: Final = 2047


def of_tensor(value: Any) -> bytes:
    """The fingerprint of a tensor or JAX array whose elements can be read, b"" for anything else."""
    kind = type(value)
    bits = bits_of(value) if is_of_framework(kind) else None
    if bits is None:
        return b""
    if not is_tensor(kind):
        return of_array(bits, f"jax {value.weak_type}")  # part of its repr
    history = f"{value.requires_grad} {name_of(type(value.grad_fn))}"  # part of its repr
    return of_array(bits, f"torch.{name_of(kind)} {value.dtype} {history}")


def of_array(array: Any, kind: str) -> bytes:
    """The fingerprint of a plain array of NumPy or cupy, of any dtype without objects."""
    return digest(digest_of(array), f"{kind} {_dtype_text(array.dtype)} {array.shape}".encode())


def of_sample(sample: np.ndarray[Any, Any], what: str) -> bytes:
    """16 bytes for elements that a table shows, of any dtype without objects; not the same as by `of_array`.

    By SHA-1, in half the time of BLAKE2b: nobody gains from values that look alike in a table. In pieces for
    which the interpreter's lock is kept: a worker that is busy in Python would return it only after 5 ms.
    """
    made = hashlib.sha1(f"{_dtype_text(sample.dtype)} {what}".encode(), usedforsecurity=False)
    content = digest_of(sample) if has_gaps(sample.dtype) else sample.tobytes()
    for start in range(0, len(content), _KEPT):
        made.update(content[start : start + _KEPT])
    return made.digest()[:16]


@lru_cache(256)
def _dtype_text(dtype: np.dtype[Any]) -> str:
    # For `str`, records and ml_dtypes' numbers are all raw bytes; not for `repr`, nor by name.
    return repr(dtype) if dtype.names is not None else f"{dtype.name} {dtype.str}"

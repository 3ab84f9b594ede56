"""Devices by name: ``device("cuda:1")``. A value that says where an array is; it opens no device.

Kinds and their numbers are DLPack's, spelled as TVM spells them, so that ``__dlpack_device__()`` of any array
has a name here and every name has a number there.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from disco_magic.core.numbers import whole_number
from disco_magic.errors import UsageMistake
from disco_magic.phrases import near_misses, ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

# DLDeviceType of dlpack.h, 1.0 and later; 5 and 6 are unused.
TYPE_CODES: Final = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
    "maia": 17,
    "trn": 18,
}
_KINDS: Final = {code: kind for kind, code in TYPE_CODES.items()}
ALIASES: Final = {
    "llvm": "cpu",  # TVM's targets, which its `device` accepted for the device they compile for
    "nvptx": "cuda",
    "cl": "opencl",
    "gpu": "cuda",  # early TVM, and JAX
    "mtl": "metal",  # TVM's short names
    "wgpu": "webgpu",
    "mps": "metal",  # what PyTorch calls the devices that it exports under these numbers
    "hip": "rocm",
    "xpu": "oneapi",
}
# DLDevice.device_id is a signed 32-bit integer; negative numbers have no meaning.
_LARGEST: Final = 2**31 - 1


@final
@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A kind of device and its number, which alone decide equality and order.

    `device` makes one from text. A Device is immutable, so it travels to workers as it is.

    Attributes:
        kind: DLPack's name of the type as TVM spells it: ``"cpu"``, ``"cuda"``, ``"rocm"``, ...
        index: which one of that kind, 0 for the first.

    Raises:
        UsageMistake: there is no such kind (aliases are for `device`), or the index is no whole number.
    """

    kind: str
    index: int = 0

    def __post_init__(self) -> None:
        call = f"Device({self.kind!r}, {self.index!r})"
        if not isinstance(self.kind, str) or self.kind not in TYPE_CODES:
            raise _no_kind(call, self.kind)
        # Make them plain str and int: NumPy's subclasses and look-alikes would show in the repr.
        object.__setattr__(self, "kind", _KINDS[TYPE_CODES[self.kind]])
        object.__setattr__(self, "index", _whole(call, self.index))

    @classmethod
    def from_dlpack(cls, pair: tuple[int, int]) -> Device:
        """The device that an array's ``__dlpack_device__()`` names.

        Args:
            pair: ``(type code, index)``, as whole numbers or enums of them.

        Raises:
            UsageMistake: it is no such pair, or DLPack has no type with that number.
        """
        call = f"Device.from_dlpack({pair!r})"
        try:
            code, index = pair
            number = operator.index(code)
        except (TypeError, ValueError):
            raise UsageMistake(
                f"{call}: expected (type code, index), what __dlpack_device__() of an array returns"
            ) from None
        if number not in _KINDS:
            known = ", ".join(f"{value} {name}" for value, name in _KINDS.items())
            raise UsageMistake(f"{call}: DLPack has no device type {number}; the types are {known}")
        return cls(_KINDS[number], _whole(call, index))

    @property
    def type_code(self) -> int:
        """DLPack's number of the kind (DLDeviceType): 1 for cpu, 2 for cuda, ..."""
        return TYPE_CODES[self.kind]

    @property
    def type(self) -> str:
        """Another name of `kind`: what TVM and PyTorch call it."""
        return self.kind

    def __str__(self) -> str:
        # The host is "cpu", as NumPy, PyTorch and the register tables write it; other kinds may have several.
        return "cpu" if self.kind == "cpu" and self.index == 0 else f"{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"device({str(self)!r})"

    def __copy__(self) -> Device:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Device:
        return self

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return Device, (self.kind, self.index)  # call the constructor, which checks what a file contained


def span(kind: str, numbers: Iterable[int]) -> str:
    """Devices of one kind as people write them: ``cuda:0``, ``cuda:[0-3]``; not ascending ``cuda:[3,1]``."""
    distinct = list(dict.fromkeys(numbers))
    if len(distinct) == 1:
        return f"{kind}:{distinct[0]}"
    if distinct == sorted(distinct):
        return f"{kind}:{ranges(distinct)}"
    return f"{kind}:[{','.join(map(str, distinct))}]"


def device(name: str | Device, index: int | None = None) -> Device:
    """A device by its name, as in TVM: ``device("cuda:1")``, ``device("cuda", 1)``, ``device("cpu")``.

    Args:
        name: a kind, ``"cuda"``, or kind and index, ``"cuda:1"``; in lower case. Kinds are those of DLPack,
            and what TVM and PyTorch also call them (``"gpu"`` cuda, ``"mps"`` metal, ``"llvm"`` cpu, ...).
            A Device is returned as it is.
        index: which one, if `name` does not say it; None: the first.

    Returns:
        A `Device`; ``device(str(d)) == d`` for every one of them. Whether the machine has it is not checked.

    Raises:
        UsageMistake: no kind has that name (a near miss is in the message), the index is no whole number from
            0, or `name` and `index` say different ones.

    Example:
        >>> str(disco.device("cuda", 1)), disco.device("cuda:1").index
        ('cuda:1', 1)
    """
    call = f"device({name!r})" if index is None else f"device({name!r}, {index!r})"
    if isinstance(name, Device):
        found = name
    elif isinstance(name, str):
        kind, colon, number = name.partition(":")
        if (kind := ALIASES.get(kind, kind)) not in TYPE_CODES:
            raise _no_kind(call, kind)
        if not colon:
            return Device(kind, 0 if index is None else _whole(call, index))
        found = Device(kind, _read(call, kind, number))
    else:
        raise UsageMistake(
            f"{call}: got {type(name).__name__}, expected text like 'cuda:1' or a Device; for DLPack's "
            "numbers there is Device.from_dlpack((2, 1)), and str(x) is the text of another library's device"
        )
    if index is not None and _whole(call, index) != found.index:
        raise UsageMistake(f"{call}: the name says index {found.index} already; leave one of the two out")
    return found


def _read(call: str, kind: str, number: str) -> int:
    if not (number.isascii() and number.isdigit()):
        raise UsageMistake(
            f"{call}: the index is {number!r}, expected a whole number from 0; did you mean '{kind}:0'?"
        )
    if len(number) > len(str(_LARGEST)):  # Python refuses to read numbers of thousands of digits
        raise UsageMistake(f"{call}: the index has {len(number)} digits, expected at most {_LARGEST}")
    return _whole(call, int(number))


def _whole(call: str, index: Any) -> int:
    """`index` as an int: any whole number except a bool, from 0 to the largest that DLPack can express."""
    number = whole_number(index)
    if number is None or not 0 <= number <= _LARGEST:
        raise UsageMistake(f"{call}: the index is {index!r}, expected a whole number from 0 to {_LARGEST}")
    return number


def _no_kind(call: str, kind: object) -> UsageMistake:
    text = str(kind).strip().lower()
    if text in TYPE_CODES or text in ALIASES:
        hint = f"did you mean {ALIASES.get(text, text)!r}?"
    else:
        hint = near_misses(text, [*TYPE_CODES, *ALIASES]) or f"expected one of {', '.join(TYPE_CODES)}"
    return UsageMistake(f"{call}: there is no kind of device {kind!r}; {hint}")

"""What stands for PyTorch where numbers are drawn: the parts that are changed there, and nothing else.

A generator counts: what it draws is its seed and how many it has drawn before.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

from disco_magic.isolation.pytorch.random import DROPOUTS, FUNCTIONS, LAYERS, METHODS, OTHER_DROPOUTS

GIVEN_NONE = (*DROPOUTS, *OTHER_DROPOUTS, *LAYERS, "rand_like")
SEEDS = iter(range(10**6, 10**7))


class Generator:
    """A seed, and how often it was drawn from."""

    def __init__(self):
        self.manual_seed(-1)

    def manual_seed(self, seed):
        self.state = (seed, 0)
        return self

    def seed(self):
        return self.manual_seed(next(SEEDS)).initial_seed()

    def initial_seed(self):
        return self.state[0]

    def get_state(self):
        return self.state

    def set_state(self, state):
        self.state = state

    def draw(self):
        seed, times = self.state
        self.state = seed, times + 1
        return seed, times


class Tensor:
    """Something on a device, with what was drawn into it.

    Attributes:
        device: of type ``"cpu"`` or another.
        drawn: one for each time.
    """

    def __init__(self, device="cpu"):
        self.device = SimpleNamespace(type=device)
        self.is_cpu = device == "cpu"
        self.drawn = []
        self.is_nested = False

    @classmethod
    def __torch_function__(cls, *args):
        """Of all that have no idea of their own."""

    def __torch_dispatch__(self):
        """As above."""

    def div_(self, by):
        self.drawn.append(by)
        return self

    def mul_(self, mask):
        self.drawn += mask.drawn
        return self

    def __mul__(self, mask):
        return Tensor(self.device.type).mul_(mask)


def _disabled():
    """The idea of a class that has none."""


def _dispatched():
    """The idea of a class that has one."""


def _function(name, call, *places):
    def function(*args, **kwargs):
        return call(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    for place in places:
        setattr(place, name, function)


def stand_in(monkeypatch):
    """A module with all that, which `import` finds. Tests change by its attributes what it says of itself.

    They are `watching`, keys of those who write down what is computed; `is_tracing`; `is_mapped`; `where`
    tensors are by default; `has_gpu`, and `of_gpus`, what those were told; `within`, called in what takes no
    generator.
    """
    torch = ModuleType("torch")
    torch.__path__ = []
    torch.watching, torch.is_tracing, torch.where = set(), False, "cpu"
    torch.has_gpu, torch.of_gpus, torch.within, torch.is_mapped = False, [], lambda: None, False
    torch.Tensor = type("Tensor", (Tensor,), {})
    torch.Split = type("Split", (torch.Tensor,), {"__torch_dispatch__": _dispatched})  # as a DTensor
    torch.Plain = type("Plain", (torch.Tensor,), {})
    torch.Generator, torch.default_generator = Generator, Generator().manual_seed(0)
    torch.device = lambda it: it if hasattr(it, "type") else SimpleNamespace(type=it)
    torch.get_default_device = lambda: torch.where
    torch.empty_like = lambda x: type(x)(x.device.type)
    for name in ("_VF", "random", "cuda"):
        setattr(torch, name, ModuleType(f"torch.{name}"))
    _add_questions(torch)
    _add_drawing(torch)
    _add_seeding(torch)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def _add_questions(torch):
    def schemas(operation):
        takes = "p" if operation.removeprefix("aten::") in GIVEN_NONE else "generator"
        return [SimpleNamespace(arguments=[SimpleNamespace(name=name)]) for name in ("self", takes)]

    torch._C = SimpleNamespace(
        _functorch=SimpleNamespace(peek_interpreter_stack=lambda: torch.is_mapped or None),
        _disabled_torch_function_impl=_disabled,
        _TorchDispatchModeKey=SimpleNamespace(FAKE="fake", PROXY="proxy", FUNCTIONAL="functional"),
        _len_torch_function_stack=lambda: torch.where != "cpu",
        _get_default_device=lambda: "cpu",
        _get_tracing_state=lambda: torch.is_tracing or None,
        _len_torch_dispatch_stack=lambda: len(torch.watching),
        _get_dispatch_mode=lambda key: key if key in torch.watching else None,
        _jit_get_schemas_for_operator=schemas,
    )


def _add_drawing(torch):
    def given(*args, generator=None, **_):
        if "wrong" in args:
            raise TypeError(f"got {args} {generator}")
        return (generator or torch.default_generator).draw()

    def given_none(*_, **__):
        torch.within()
        return torch.default_generator.draw()

    def method(tensor, *_, generator=None):
        if isinstance(tensor, torch.Split):  # it calls the operation with what it consists of
            assert generator is None  # it would be dropped
            tensor.drawn.append(torch.ops.aten.uniform_.default(torch.Tensor()))
        else:
            tensor.drawn.append((generator or torch.default_generator).draw())
        return tensor

    _add_operations(torch, given, given_none)
    functional = ModuleType("torch.nn.functional")
    torch.nn = SimpleNamespace(
        Parameter=type("Parameter", (torch.Tensor,), {"__torch_function__": _disabled}), functional=functional
    )
    for name in FUNCTIONS:
        _function(name, given_none if name in GIVEN_NONE else given, torch)
    for name in (*DROPOUTS, *OTHER_DROPOUTS, *LAYERS):
        _function(name, given_none, torch, torch._VF)
    for name in METHODS:
        _function(name, method, Tensor)
    _function("scaled_dot_product_attention", given_none, functional)
    functional.rrelu_ = torch.rrelu_
    dataset = SimpleNamespace(randperm=torch.randperm)
    torch.utils = SimpleNamespace(data=SimpleNamespace(dataset=dataset))
    table = {id(torch.rand): "aten::rand"}
    torch.jit = SimpleNamespace(_builtins=SimpleNamespace(_get_builtin_table=lambda: table))


class Operation:
    """One of those of which all others are made, as it is called by name.

    Attributes:
        _op: what it calls.
    """

    def __init__(self, call, names):
        self._op = call
        arguments = [SimpleNamespace(name=name, type="Tensor") for name in names]
        self._schema = SimpleNamespace(arguments=arguments)

    def __call__(self, *args, **kwargs):
        return self._op(*args, **kwargs)


def _add_operations(torch, given, given_none):
    def packet(**operations):
        made = {name: Operation(call, names) for name, (call, names) in operations.items()}

        def whole(*args, **kwargs):
            return made["default"](*args, **kwargs)

        return SimpleNamespace(overloads=lambda: list(made), _op=whole, **made)

    def first(function):
        def call(*args, **kwargs):
            return function(*args, **kwargs)

        call.__name__ = ""
        return call

    torch.ops = SimpleNamespace(
        aten=SimpleNamespace(
            uniform_=packet(default=(first(given), ["self", "generator"])),
            randint=packet(
                default=(first(given_none), ["high"]),
                low=(first(given_none), ["low", "high"]),
                low_generator=(first(given), ["low", "high", "generator"]),
            ),
        )
    )


def _add_seeding(torch):
    everyones, gpus = torch.default_generator, torch.of_gpus
    for name in ("manual_seed", "seed", "initial_seed"):
        _function(name, getattr(everyones, name), torch, torch.random)
    for name in ("get", "set"):
        _function(f"{name}_rng_state", getattr(everyones, f"{name}_state"), torch, torch.random)
    torch.cuda.random = ModuleType("torch.cuda.random")
    torch.cuda.is_available = torch.cuda.is_initialized = lambda: torch.has_gpu
    torch.is_forked = False
    torch.cuda._is_in_bad_fork = lambda: torch.is_forked
    torch.cuda.init = lambda: gpus.append("ready")
    torch.cuda.manual_seed = gpus.append
    for name in ("manual_seed_all", "seed_all"):
        _function(name, lambda *seed: gpus.append(("all", *seed)), torch.cuda, torch.cuda.random)

"""PyTorch's random state on the CPU: each worker has its own, a generator.

What takes a generator is given it. Dropout, which takes none, draws its mask from it in the steps in which
PyTorch does. While others compute that draw, attention and recurrent layers with a dropout inside, the
worker's state is in the place of the process's, one worker after the other. So programs seed, keep states and
put them back as in processes: ``torch.manual_seed``, `fork_rng`, checkpoints of activations, `DataLoader`.

A state on a GPU is that of all workers who share it; ``torch.manual_seed`` on a worker seeds that of its GPU.
What is compiled by inductor, or traced, draws from the process's.
"""

from __future__ import annotations

import sys
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.replaced import Replaced, replace_all
from disco_magic.functions.stand_ins import StandIn
from disco_magic.functions.torch_generators import Generators, Loan

if TYPE_CHECKING:
    from collections.abc import Callable

# With each kind, whether it draws is told by its arguments.
FUNCTIONS: Final = (
    *("bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "rand_like", "randint"),
    *("randint_like", "randn", "randn_like", "randperm", "rrelu", "rrelu_", "_sample_dirichlet"),
    "_standard_gamma",
)
METHODS: Final = (
    *("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial"),
    *("normal_", "random_", "uniform_"),
)
DROPOUTS: Final = ("dropout", "dropout_")
OTHER_DROPOUTS: Final = (
    *("alpha_dropout", "alpha_dropout_", "feature_dropout", "feature_dropout_"),
    *("feature_alpha_dropout", "feature_alpha_dropout_"),
)
LAYERS: Final = ("gru", "lstm", "rnn_relu", "rnn_tanh")
ATTENTION: Final = "scaled_dot_product_attention"
_STATES: Final = ("get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state")
_OF_GPUS: Final = ("manual_seed_all", "seed_all")


class _Drawing(StandIn):
    """A function that draws from a state.

    Args:
        first, module: see `StandIn`.
        states: the workers'.
    """

    def __init__(self, first: Callable[..., Any], module: str, states: Generators) -> None:
        super().__init__(first, module)
        self._states = states

    def _borrow(self, mine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call it while the worker's state is in the place of the process's.

        A DTensor may have a call wait for other workers, and those would wait for the state; not in one that
        draws into a tensor or in the form of one.
        """
        may_wait = self._states.has_others((*args, *kwargs.values()))
        if may_wait and not self.name.endswith(("_", "_like")):
            return self.first(*args, **kwargs)
        with Loan(self._states, mine):
            return self.first(*args, **kwargs)


class _Given(_Drawing):
    """One that takes a generator."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        mine = None
        if kwargs.get("generator") in (None, self._states.everyones):  # that is the default of `random_split`
            mine = self._states.for_call(args, kwargs)
        if mine is None:
            return self.first(*args, **kwargs)
        if self._states.has_others(args):
            return self._borrow(mine, args, kwargs)  # a DTensor would drop it
        try:
            return self.first(*args, **kwargs | {"generator": mine})
        except TypeError:
            pass  # which names the generator: it is to say what the caller has written
        return self.first(*args, **kwargs)


class _Method(_Given):
    """One of a tensor."""

    def __get__(self, tensor: Any, _: type | None = None) -> Any:
        return self if tensor is None else MethodType(self, tensor)


class _Dropout(_Drawing):
    """Dropout, in the steps in which PyTorch computes it on the CPU; other workers draw meanwhile."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        mine = self._states.for_call(args, kwargs) if _drops(*args, **kwargs) else None
        if mine is None:
            return self.first(*args, **kwargs)
        x, kept = args[0] if args else kwargs["input"], 1 - (args[1] if len(args) > 1 else kwargs["p"])
        mask = self._states.torch.empty_like(x).bernoulli_(kept).div_(kept)
        return x.mul_(mask) if self.name.endswith("_") else x * mask


class _Borrowing(_Drawing):
    """One that takes no generator: the worker's state is in the process's place while it computes.

    Args:
        first, module, states: see `_Drawing`.
        draws: whether a call does, by its arguments.
    """

    def __init__(
        self, first: Callable[..., Any], module: str, states: Generators, draws: Callable[..., bool]
    ) -> None:
        super().__init__(first, module, states)
        self._draws = draws

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        mine = self._states.for_call(args, kwargs) if self._draws(*args, **kwargs) else None
        return self.first(*args, **kwargs) if mine is None else self._borrow(mine, args, kwargs)


class _Own(_Drawing):
    """A function that seeds, keeps or puts back the state; on a worker `act` does that.

    Args:
        first, module, states: see `_Drawing`.
        act: gets the worker's generator.
    """

    def __init__(
        self, first: Callable[..., Any], module: str, states: Generators, act: Callable[..., Any]
    ) -> None:
        super().__init__(first, module, states)
        self._act = act

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        mine = self._states.mine()
        return self.first(*args, **kwargs) if mine is None else self._act(mine, *args, **kwargs)


def _drops(_: Any = None, p: float = 0.0, train: bool = False, **__: Any) -> bool:  # noqa: FBT001, FBT002 - PyTorch's
    """Whether a dropout with these arguments, which its own code may refuse, draws."""
    return bool(train) and 0 < p < 1


def _layer_drops(*args: Any, **_: Any) -> bool:
    """Whether a recurrent layer does: of its arguments only how much it drops is a float."""
    return any(type(each) is float and each > 0 for each in args)


def _attention_drops(*args: Any, dropout_p: float = 0.0, **_: Any) -> bool:
    """Whether attention does; it may be given by its place, the fifth."""
    return bool((*args[4:5], dropout_p)[0] > 0)


def _draws(*_: Any, **__: Any) -> bool:
    return True


def fit_torch_random(torch: Any) -> Callable[[], None]:
    """Let each worker have a state of its own; `torch` is PyTorch."""
    states = Generators(torch)
    ours = [*_drawing(torch, states), *_seeding(torch, states)]
    table = torch.jit._builtins._get_builtin_table()  # noqa: SLF001 - what TorchScript knows, by identity
    known = {id(each): table[id(each.first)] for _, each in ours if id(each.first) in table}
    table.update(known)
    take = replace_all([Replaced(place, each.name, each) for place, each in ours])

    def undo() -> None:
        take()
        for each in known:
            table.pop(each, None)

    return undo


def fit_graphs(rules: Any) -> Callable[[], None]:
    """Let PyTorch's compiler take what stands there for what it stands for: it would look into it, and stop.

    `rules` is ``torch._dynamo.trace_rules``, which is imported after PyTorch.
    """
    torch: Any = sys.modules["torch"]
    places = (torch, torch._VF, torch.nn.functional)  # noqa: SLF001
    ours = {id(each) for place in places for each in vars(place).values() if isinstance(each, StandIn)}
    allowed = rules._allowed_callable_ids  # noqa: SLF001 - what is public imports the compiler
    for each in ours:
        allowed.add(each)

    def undo() -> None:
        for each in ours:
            allowed.remove(each)

    return undo


def _drawing(torch: Any, states: Generators) -> list[tuple[Any, _Drawing]]:
    """Where it is, what stands in the place of each function that draws."""

    def takes_generator(name: str) -> bool:
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")  # noqa: SLF001
        return any(each.name == "generator" for schema in schemas for each in schema.arguments)

    def borrowing(place: Any, names: tuple[str, ...], draws: Callable[..., bool]) -> list[_Drawing]:
        return [_Borrowing(getattr(place, name), place.__name__, states, draws) for name in names]

    given = [name for name in FUNCTIONS if takes_generator(name)]
    ours: list[_Drawing] = [_Given(getattr(torch, name), "torch", states) for name in given]
    # These PyTorch's own modules use in another place, as those that are named below.
    layers: list[_Drawing] = [_Dropout(getattr(torch, name), "torch", states) for name in DROPOUTS]
    layers += borrowing(torch, OTHER_DROPOUTS, _drops) + borrowing(torch, LAYERS, _layer_drops)
    ours += borrowing(torch, tuple(name for name in FUNCTIONS if name not in given), _draws) + layers
    methods = [(torch.Tensor, _Method(getattr(torch.Tensor, name), "torch", states)) for name in METHODS]
    functional = torch.nn.functional
    attention = borrowing(functional, (ATTENTION,), _attention_drops)
    return [
        *((torch, each) for each in ours),
        *((torch._VF, each) for each in layers),  # noqa: SLF001
        *((functional, each) for each in ours if each.name == "rrelu_"),
        *((torch.utils.data.dataset, each) for each in ours if each.name == "randperm"),
        *((functional, each) for each in attention),
        *methods,
    ]


def _seeding(torch: Any, states: Generators) -> list[tuple[Any, _Drawing]]:
    """The same of functions that seed, keep and put back."""

    def manual_seed(mine: Any, seed: Any) -> Any:
        states.seed_gpu(int(seed))
        return mine.manual_seed(int(seed))

    def new_seed(mine: Any) -> int:
        seed: int = mine.seed()
        states.seed_gpu(seed)
        return seed

    def seed_gpu(_: Any, seed: Any) -> None:
        states.seed_gpu(int(seed))

    def new_seed_of_gpu(_: Any) -> None:
        states.seed_gpu(states.begin().initial_seed())

    acts: dict[str, Callable[..., Any]] = {
        "get_rng_state": lambda mine: mine.get_state(),
        "set_rng_state": lambda mine, new_state: mine.set_state(new_state),
        "initial_seed": lambda mine: mine.initial_seed(),
        "manual_seed": manual_seed,
        "seed": new_seed,
    }
    of_gpus: dict[str, Callable[..., Any]] = {"manual_seed_all": seed_gpu, "seed_all": new_seed_of_gpu}
    return [
        (place, _Own(getattr(place, name), place.__name__, states, act))
        for places, functions in (
            ((torch, torch.random), acts),
            ((torch.cuda, torch.cuda.random), of_gpus),
        )
        for place in places
        for name, act in functions.items()
    ]

"""PyTorch's random state on the CPU: each worker has its own, a generator.

What takes a generator is given it. Dropout, which takes none, draws its mask from it in the steps in which
PyTorch does. While others compute that draw, attention and recurrent layers with a dropout inside, the
worker's state is in the place of the process's, one worker after the other. So programs seed, keep states and
put them back as in processes: ``torch.manual_seed``, `fork_rng`, checkpoints of activations, `DataLoader`.

A state on a GPU is that of all workers who share it; ``torch.manual_seed`` on a worker seeds that of its GPU.
What is traced, by `torch.compile` but with its backend "eager", draws from the process's, and so does what
of a DTensor neither fills one, nor is like one, nor is `dropout`. A call takes some microseconds more.
"""

from __future__ import annotations

import sys
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.replaced import Replaced, replace_all
from disco_magic.functions.stand_ins import StandIn, standing
from disco_magic.functions.torch_generators import Generators, Loan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


class _Drawing(StandIn):
    """A function that draws from a state: of a worker's, or of the process's, which workers borrow at times.

    Args:
        first, place: see `StandIn`.
        states: the workers'.
        draws: whether a call does, by its arguments; what fails in it, PyTorch refuses, too.
    """

    def __init__(
        self,
        first: Callable[..., Any],
        place: str,
        states: Generators,
        draws: Callable[..., bool] | None = None,
    ) -> None:
        super().__init__(first, place)
        self._states, self._draws = states, draws

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives, of the worker's state."""
        __tracebackhide__ = True
        mine = self._states.mine()
        if mine is None:
            with self._states.lock:  # nobody has borrowed it
                return self.first(*args, **kwargs)
        if not self._may_draw(args, kwargs) or not self._states.can_serve(args, kwargs):
            return self.first(*args, **kwargs)
        return self._draw(mine, args, kwargs)

    def _may_draw(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            return self._draws is None or self._draws(*args, **kwargs)
        except TypeError:
            return False

    def _draw(self, mine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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

    def _may_draw(self, _: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        # The process's is the default of `random_split`.
        return kwargs.get("generator") in (None, self._states.everyones)

    def _draw(self, mine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._states.has_others((*args, *kwargs.values())):
            return super()._draw(mine, args, kwargs)  # a DTensor would drop it
        try:
            return self.first(*args, **kwargs | {"generator": mine})
        except TypeError:
            pass  # which names the generator: it is to say what the caller has written
        return self.first(*args, **kwargs)


class _Method(_Given):
    """One of a tensor."""

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        return self if holder is None else MethodType(self, holder)

    def __reduce__(self) -> Any:
        return getattr, (self._states.torch.Tensor, self.name)


class _Dropout(_Drawing):
    """Dropout, in the steps in which PyTorch computes it on the CPU; other workers draw meanwhile."""

    def _draw(self, mine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x, kept = args[0] if args else kwargs["input"], 1 - (args[1] if len(args) > 1 else kwargs["p"])
        if x.is_nested:
            return super()._draw(mine, args, kwargs)
        mask = self._states.torch.empty_like(x).bernoulli_(kept).div_(kept)
        return x.mul_(mask) if self.name.endswith("_") else x * mask


class _Own(_Drawing):
    """A function that seeds, keeps or puts back the state; on a worker `act` does that.

    Args:
        first, place, states: see `_Drawing`.
        act: gets the worker's generator.
    """

    def __init__(
        self, first: Callable[..., Any], place: str, states: Generators, act: Callable[..., Any]
    ) -> None:
        super().__init__(first, place, states)
        self._act = act

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives, of the worker's state."""
        __tracebackhide__ = True
        if self._states.mine() is None:
            return super().__call__(*args, **kwargs)
        return self._act(self._states.mine(), *args, **kwargs)


def _drops(_: Any = None, p: float = 0.0, train: bool = False, **__: Any) -> bool:  # noqa: FBT001, FBT002 - PyTorch's
    """Whether a dropout with these arguments, which its own code may refuse, draws."""
    return bool(train) and 0 < p < 1


def _layer_drops(*args: Any, **_: Any) -> bool:
    """Whether a recurrent layer does: of its arguments only how much it drops is a float."""
    return any(type(each) is float and each > 0 for each in args)


def _attention_drops(*args: Any, dropout_p: float = 0.0, **_: Any) -> bool:
    """Whether attention does; it may be given by its place, the fifth."""
    return bool((*args[4:5], dropout_p)[0] > 0)


# Once, as the functions that draw from them, see `standing`.
_states_of: Final = cache(Generators)


def fit_torch_random(torch: Any) -> Callable[[], None]:
    """Let each worker have a state of its own; `torch` is PyTorch."""
    states = _states_of(torch)
    ours = [*_drawing(torch, states), *_seeding(torch, states)]
    table = torch.jit._builtins._get_builtin_table()  # noqa: SLF001 - what TorchScript knows, by identity
    table.update({id(each): table[id(each.first)] for _, each in ours if id(each.first) in table})
    return replace_all([Replaced(place, each.name, each) for place, each in ours])


def fit_graphs(rules: Any) -> None:
    """Let PyTorch's compiler take what stands there for what it stands for: it would look into it, and stop.

    `rules` is ``torch._dynamo.trace_rules``, which is imported after PyTorch.
    """
    torch: Any = sys.modules["torch"]
    for place in (torch, torch._VF, torch.nn.functional):  # noqa: SLF001
        for each in vars(place).values():
            if isinstance(each, StandIn):
                rules._allowed_callable_ids.add(id(each))  # noqa: SLF001 - what is public imports the compiler


def _drawing(torch: Any, states: Generators) -> list[tuple[Any, _Drawing]]:
    """Where it is, what stands in the place of each function that draws."""

    def takes_generator(name: str) -> bool:
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")  # noqa: SLF001
        return any(each.name == "generator" for schema in schemas for each in schema.arguments)

    def borrowing(place: Any, names: Iterable[str], draws: Callable[..., bool] | None) -> list[_Drawing]:
        return [standing(_Drawing, getattr(place, name), place.__name__, states, draws) for name in names]

    given = [name for name in FUNCTIONS if takes_generator(name)]
    ours: list[_Drawing] = [standing(_Given, getattr(torch, name), "torch", states) for name in given]
    # These PyTorch's own modules use in another place, as those that are named below.
    layers: list[_Drawing] = [
        standing(_Dropout, getattr(torch, name), "torch", states, _drops) for name in DROPOUTS
    ]
    layers += borrowing(torch, OTHER_DROPOUTS, _drops) + borrowing(torch, LAYERS, _layer_drops)
    ours += borrowing(torch, (name for name in FUNCTIONS if name not in given), None) + layers
    methods = [
        (torch.Tensor, standing(_Method, getattr(torch.Tensor, name), "torch.Tensor", states))
        for name in METHODS
    ]
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
        (place, standing(_Own, getattr(place, name), place.__name__, states, act))
        for places, functions in (
            ((torch, torch.random), acts),
            ((torch.cuda, torch.cuda.random), of_gpus),
        )
        for place in places
        for name, act in functions.items()
    ]

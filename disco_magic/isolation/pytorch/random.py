"""PyTorch's random state on the CPU: each worker has its own, a generator.

Functions that take a generator get it, also where compiled code or a DTensor calls PyTorch's operations by
their names, `torch.ops.aten`. Dropout takes none: its mask is drawn from the generator, in the steps in which
PyTorch does so. While other functions compute that draw, such as attention and recurrent layers with a
dropout inside, the worker's state replaces the process's, one worker after the other. So programs seed, save
and restore states as in processes: ``torch.manual_seed``, `fork_rng`, checkpoints of activations,
`DataLoader`.

The state of a GPU is shared by all workers that use it; ``torch.manual_seed`` on a worker seeds that of its
GPU. TorchScript draws from the process's. A call takes some microseconds longer.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.callers.stand_ins import StandIn, standing
from disco_magic.isolation.pytorch.generators import (
    Drawing,
    Dropout,
    Generators,
    Given,
    Keeping,
    Method,
    attention_drops,
    drops,
    layer_drops,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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
    *("feature_alpha_dropout", "feature_alpha_dropout_", "native_dropout"),
)
LAYERS: Final = ("gru", "lstm", "rnn_relu", "rnn_tanh")
ATTENTION: Final = "scaled_dot_product_attention"
OPERATIONS: Final = (
    *("bernoulli", "bernoulli_", "binomial", "cauchy", "cauchy_", "exponential", "exponential_", "geometric"),
    *("geometric_", "log_normal", "log_normal_", "multinomial", "normal", "normal_"),
    "normal_functional",
    *("poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random", "random_"),
    *("randperm", "rrelu", "rrelu_", "rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_functional"),
    *("uniform", "uniform_", "_sample_dirichlet", "_standard_gamma"),
)
"""The operations that draw, among those of which all others are made."""
COMPOSED: Final[Mapping[str, Callable[..., bool]]] = {
    **dict.fromkeys((*DROPOUTS, *OTHER_DROPOUTS), drops),
    **dict.fromkeys(LAYERS, layer_drops),
    ATTENTION: attention_drops,
}
"""Operations that are made of others, as exported models call them: they draw where no Python code is."""

# Made once, like the functions that draw from them, see `standing`.
_states_of: Final = cache(Generators)


def fit_torch_random(torch: Any) -> Callable[[], None]:
    """Let each worker have a state of its own; `torch` is PyTorch."""
    states = _states_of(torch)
    ours = [*_drawing(torch, states), *_keeping(torch, states)]
    table = torch.jit._builtins._get_builtin_table()  # noqa: SLF001 - what TorchScript knows, by identity
    table.update({id(each): table[id(each.first)] for _, each in ours if id(each.first) in table})
    replaced = [Replaced(place, each.name, each) for place, each in ours]
    replaced += [Replaced(each, "_op", ours) for each, ours in _operations(torch, states)]
    return replace_all(replaced)


def fit_graphs(rules: Any) -> None:
    """Let PyTorch's compiler treat our replacements like the originals: it would look into them, and stop.

    `rules` is ``torch._dynamo.trace_rules``, which is imported after PyTorch.
    """
    torch: Any = sys.modules["torch"]
    for place in (torch, torch._VF, torch.nn.functional, torch.Tensor):  # noqa: SLF001
        for each in list(vars(place).values()):
            if isinstance(each, Drawing) and not isinstance(each, Keeping):
                rules._allowed_callable_ids.add(id(each))  # noqa: SLF001 - the public way imports the compiler
    for each in list(vars(np.random).values()):
        if isinstance(each, StandIn):
            for one in (each, each.first):  # the original is hidden when the compiler first looks
                rules._numpy_function_ids.add(id(one))  # noqa: SLF001


def _drawing(torch: Any, states: Generators) -> list[tuple[Any, StandIn]]:
    """Return (owner, replacement) for each function that draws."""

    def takes_generator(name: str) -> bool:
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")  # noqa: SLF001
        return any(each.name == "generator" for schema in schemas for each in schema.arguments)

    def made(kind: type[Drawing], place: Any, names: Iterable[str], *draws: Any) -> list[StandIn]:
        return [standing(kind, getattr(place, name), place.__name__, states, *draws) for name in names]

    given = [name for name in FUNCTIONS if takes_generator(name)]
    layers = [
        *made(Dropout, torch, DROPOUTS, drops),
        *made(Drawing, torch, OTHER_DROPOUTS, drops),
        *made(Drawing, torch, LAYERS, layer_drops),
    ]
    ours = made(Given, torch, given) + made(Drawing, torch, set(FUNCTIONS).difference(given)) + layers
    functional = torch.nn.functional
    methods = [standing(Method, getattr(torch.Tensor, name), "torch.Tensor", states) for name in METHODS]
    return [
        *((torch, each) for each in ours),
        *((torch._VF, each) for each in layers),  # noqa: SLF001 - PyTorch's modules use these
        *((functional, each) for each in ours if each.name == "rrelu_"),
        *((torch.utils.data.dataset, each) for each in ours if each.name == "randperm"),
        *((functional, each) for each in made(Drawing, functional, [ATTENTION], attention_drops)),
        *((torch.Tensor, each) for each in methods),
    ]


def _operations(torch: Any, states: Generators) -> Iterator[tuple[Any, StandIn]]:
    """Yield each operation that draws, as it is called from Python, and its replacement."""
    for name in (*OPERATIONS, *COMPOSED):
        packet = getattr(torch.ops.aten, name, None)
        if packet is None:  # not in this version of PyTorch
            continue
        known = {_signature(each): each for each in (getattr(packet, one) for one in packet.overloads())}
        for (arguments, has_generator), operation in known.items():
            seeded = operation if has_generator else known.get((arguments, True))
            first = operation._op  # noqa: SLF001 - what it calls has no other name
            kind, home = Given if seeded else Drawing, f"torch.ops.aten.{name}"
            ours = standing(kind, first, home, states, COMPOSED.get(name))
            if isinstance(ours, Given) and seeded is not operation:
                ours.seeded = seeded
            yield operation, ours
        whole = packet._op  # noqa: SLF001 - as above; called without naming an overload
        yield packet, standing(Drawing, whole, f"torch.ops.aten.{name}", states, COMPOSED.get(name))


def _signature(operation: Any) -> tuple[tuple[str, ...], bool]:
    """Return its arguments without the generator, and whether it takes one."""
    arguments = operation._schema.arguments  # noqa: SLF001
    others = tuple(f"{each.name}: {each.type}" for each in arguments if each.name != "generator")
    return others, len(others) < len(arguments)


def _keeping(torch: Any, states: Generators) -> list[tuple[Any, StandIn]]:
    """Return (owner, replacement) for each function that seeds, saves or restores the state."""

    def manual_seed(mine: Any, seed: Any) -> Any:
        states.seed_gpu(int(seed))
        return mine.manual_seed(int(seed))

    def new_seed(mine: Any) -> int:
        seed: int = mine.seed()
        states.seed_gpu(seed)
        return seed

    def set_state(mine: Any, new_state: Any) -> None:
        mine.set_state(new_state)

    def seed_gpu(_: Any, seed: Any) -> None:
        states.seed_gpu(int(seed))

    def new_seed_of_gpu(_: Any) -> None:
        states.seed_gpu(states.begin().generator.initial_seed())

    acts: dict[str, Callable[..., Any]] = {
        "get_rng_state": lambda mine: mine.get_state(),
        "set_rng_state": set_state,
        "initial_seed": lambda mine: mine.initial_seed(),
        "manual_seed": manual_seed,
        "seed": new_seed,
    }
    of_gpus: dict[str, Callable[..., Any]] = {"manual_seed_all": seed_gpu, "seed_all": new_seed_of_gpu}
    return [
        (place, standing(Keeping, getattr(place, name), place.__name__, states, act))
        for places, functions in (
            ((torch, torch.random), acts),
            ((torch.cuda, torch.cuda.random), of_gpus),
        )
        for place in places
        for name, act in functions.items()
    ]

"""Stand-ins for models of `fully_shard` and of FSDP's first version, which note where they are in a step."""

from __future__ import annotations

from types import SimpleNamespace


def named(name):
    return SimpleNamespace(name=name)


class ShardedNet:
    """As `fully_shard` makes it: a state for each part, and in it groups of parameters."""

    def __init__(self, state="IDLE", *, group=None, sharded="SHARDED", queued=False, parts=()):
        self.state = named(state)
        self.group = SimpleNamespace(_training_state=named(group or state), _sharded_state=named(sharded))
        self.queued, self.parts = queued, parts

    def modules(self):
        yield self
        for part in self.parts:
            yield from part.modules()

    def _get_fsdp_state(self):
        context = SimpleNamespace(post_backward_final_callback_queued=self.queued)
        return SimpleNamespace(
            _training_state=self.state, _state_ctx=context, _fsdp_param_groups=[self.group]
        )


class FullyShardedDataParallel:
    """As the first version makes it; `handle`: what its flat parameter has noted, None without one."""

    def __init__(self, state="IDLE", *, handle="IDLE", queued=None):
        self.training_state = named(state)
        self._handle = handle and SimpleNamespace(_training_state=named(handle))
        if queued is not None:
            self._post_backward_callback_queued = queued

    def modules(self):
        yield self


class PlainNet(SimpleNamespace):
    """A model that is not sharded itself; `parts` may be."""

    def modules(self):
        return iter([self, *self.parts])


ShardedNet.__module__ = FullyShardedDataParallel.__module__ = "torch.distributed.fsdp.net"
PlainNet.__module__ = "torch.nn.modules.container"

"""Stand-ins for models of `fully_shard` and of FSDP's first version, which note where they are in a step."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


def named(name):
    return SimpleNamespace(name=name)


class Module:
    """As PyTorch's: what is in a module is in a dictionary of it."""

    def __init__(self, parts=()):
        self._modules = {str(number): part for number, part in enumerate(parts)}

    def modules(self):
        raise AssertionError("may be the user's")


class ShardedNet(Module):
    """As `fully_shard` makes it: a state for each part, and in it groups of parameters; `kept`: gradients."""

    def __init__(
        self, state="IDLE", *, group=None, sharded="SHARDED", queued=False, parts=(), ranks=None, kept=""
    ):
        super().__init__(parts)
        self.state = named(state)
        self.order = [] if state == "IDLE" else [1]
        self.group = SimpleNamespace(_training_state=named(group or state), _sharded_state=named(sharded))
        whole = SimpleNamespace(grad=1 if kept == "whole" else None)
        held = SimpleNamespace(
            _unsharded_param=whole,
            unsharded_accumulated_grad=1 if kept == "of another dtype" else None,
        )
        # Before its first pass a parameter has no whole.
        self.group.fsdp_params = [SimpleNamespace(unsharded_accumulated_grad=None), held]
        self.group._partial_reduce_output = 1 if kept == "partly reduced" else None
        if ranks is not None:
            mesh = SimpleNamespace(mesh=np.array(ranks))
            self.group.mesh_info = SimpleNamespace(mesh=mesh)
        self.queued = queued

    def _get_fsdp_state(self):
        context = SimpleNamespace(post_backward_final_callback_queued=self.queued)
        return SimpleNamespace(
            _training_state=self.state,
            _state_ctx=context,
            _comm_ctx=SimpleNamespace(post_forward_order=self.order),
            _fsdp_param_groups=[self.group],
        )


class ResettableNet(ShardedNet):
    """As PyTorch 2.14 makes it."""

    def reset_iter_state(self):
        raise AssertionError("the user's to call")


class FullyShardedDataParallel(Module):
    """As the first version makes it; `handle`: what its flat parameter has noted, None without one."""

    def __init__(self, state="IDLE", *, handle="IDLE", queued=None):
        super().__init__()
        self.training_state = named(state)
        self._handle = handle and SimpleNamespace(_training_state=named(handle))
        if queued is not None:
            self._post_backward_callback_queued = queued


class PlainNet(Module):
    """A model that is not sharded itself; `parts` may be."""


ShardedNet.__module__ = ResettableNet.__module__ = FullyShardedDataParallel.__module__ = (
    "torch.distributed.fsdp.net"
)
PlainNet.__module__ = "torch.nn.modules.container"
Module.__module__ = "torch.nn.modules.module"

"""Where in its step a sharded model is."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from disco_magic.values.sharded import UNKNOWN, Remedy, models_of, progress
from tests.values.sharded import FullyShardedDataParallel, PlainNet, ResettableNet, ShardedNet, named


@pytest.mark.parametrize(
    ("model", "is_stuck"),
    [
        (ShardedNet(), False),
        (ShardedNet("FORWARD"), False),
        (ShardedNet("PRE_BACKWARD"), True),
        (ShardedNet(group="POST_BACKWARD"), True),
        (ShardedNet(queued=True), True),
        (ShardedNet(parts=[ShardedNet(), ShardedNet("PRE_BACKWARD")]), True),
        (PlainNet(parts=[ShardedNet(), ShardedNet("PRE_BACKWARD")]), True),
        (FullyShardedDataParallel(), False),
        (FullyShardedDataParallel(handle=None, queued=False), False),
        (FullyShardedDataParallel("FORWARD_BACKWARD", handle="FORWARD"), False),
        (FullyShardedDataParallel("FORWARD_BACKWARD", handle="BACKWARD_POST"), True),
        (FullyShardedDataParallel(handle="BACKWARD_PRE"), True),
        (FullyShardedDataParallel(queued=True), True),
    ],
)
def test_a_model_is_stuck_in_its_backward_pass_only(model, is_stuck):
    assert progress(model).is_stuck is is_stuck


def test_models_that_call_other_collectives_have_other_marks():
    assert progress(ShardedNet()) == progress(ShardedNet())
    assert progress(ShardedNet()).marks != progress(ShardedNet("FORWARD")).marks
    assert progress(ShardedNet()).marks != progress(ShardedNet(sharded="UNSHARDED")).marks
    assert not progress(ShardedNet(sharded="UNSHARDED")).is_under_way
    assert progress(ShardedNet(parts=[ShardedNet()])) != progress(ShardedNet(parts=[ShardedNet("FORWARD")]))


def test_earlier_versions_have_one_group_or_none():
    class EarlierNet(ShardedNet):
        def _get_fsdp_state(self):
            state = super()._get_fsdp_state()
            [group] = vars(state).pop("_fsdp_param_groups")
            state._fsdp_param_group = group if self._modules else None
            return state

    assert progress(EarlierNet(group="POST_BACKWARD", parts=[ShardedNet()])).is_stuck
    assert not progress(EarlierNet(group="POST_BACKWARD")).is_stuck


def test_models_on_other_workers_meet_others():
    assert progress(ShardedNet(ranks=[0, 1])).meets == progress(ShardedNet(ranks=[0, 1])).meets
    assert progress(ShardedNet(ranks=[0, 1])).meets != progress(ShardedNet(ranks=[2, 3])).meets
    assert progress(ShardedNet(ranks=[0])).meets != progress(ShardedNet(parts=[ShardedNet()])).meets


@pytest.mark.parametrize("kept", ["whole", "of another dtype", "partly reduced"])
def test_gradients_that_are_not_reduced_are_kept(kept):
    assert not progress(ShardedNet()).keeps
    assert progress(PlainNet(parts=[ShardedNet(), ShardedNet(kept=kept)])).keeps


def test_a_model_that_has_not_run_yet_is_not_under_way():
    model = ShardedNet()
    state = model._get_fsdp_state()
    del state._comm_ctx.post_forward_order
    model._get_fsdp_state = lambda: state
    assert progress(model) == progress(ShardedNet())


def test_a_part_of_a_mesh_is_known_by_its_groups():
    """PyTorch asks for the calling worker's rank if it is asked for the ranks."""

    class PartOfMesh:
        shard_process_group = "dp"

        @property
        def mesh(self):
            raise ValueError("Default process group has not been initialized")

    model = ShardedNet()
    model.group.mesh_info = PartOfMesh()
    assert progress(model).meets == (1, (("dp", None),))


def test_what_helps_depends_on_the_version():
    assert progress(ResettableNet()).remedy is Remedy.RESET
    assert progress(PlainNet(parts=[ResettableNet(), ShardedNet()])).remedy is Remedy.STATE
    assert progress(PlainNet(parts=[FullyShardedDataParallel(), ShardedNet()])).remedy is Remedy.CHECKPOINT


def test_no_code_of_the_users_runs():
    class Asked(type):
        def __getattribute__(cls, name):
            raise AssertionError(name)

    class Unfriendly(metaclass=Asked):
        __dict__ = property(lambda _: 1 / 0)

    def compared(*_):
        raise SystemExit

    odd = type("Odd", (type,), {"__eq__": compared, "__hash__": type.__hash__})("Odd", (), {})()
    bound = {"kind": Unfriendly, "made": object.__new__(Unfriendly), "holder": SimpleNamespace(a=Unfriendly)}
    bound |= {"odd": odd, "by": {odd: odd}}
    assert models_of(bound, {}) == {}


def test_what_has_other_names_is_unknown():
    model = ShardedNet()
    model.state = object()
    assert progress(model) is UNKNOWN
    assert UNKNOWN.is_stuck


@pytest.mark.parametrize("value", [1, ShardedNet, PlainNet(parts=[]), named("FSDP")])
def test_other_values_have_none(value):
    assert progress(value) is None


def test_models_are_found_under_names_and_in_what_these_hold():
    class Unfriendly:
        def __getattribute__(self, name):
            raise AssertionError(name)

    unfriendly, net = Unfriendly(), ShardedNet()
    vars_of = object.__getattribute__(unfriendly, "__dict__")
    vars_of["net"] = net
    bound = {"net": net, "plain": PlainNet(parts=[net]), "trainer": SimpleNamespace(model=net, step=1)}
    bound |= {"_": net, "nets": [1, net], "by": {"a": net, net: net}, "many": [net] * 65}
    bound |= {"math": math, "kind": ShardedNet, "unfriendly": unfriendly}
    assert list(models_of(bound, {})) == [
        "net",
        "plain",
        "trainer.model",
        "nets[1]",
        "by['a']",
        "unfriendly.net",
    ]

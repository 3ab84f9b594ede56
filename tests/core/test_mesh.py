"""Who is where in a mesh, and what is said of a mesh that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.mesh import NO_MESH, Mesh, mesh_of
from disco_magic.errors import UnknownName, UsageMistake

MESHES = [{"tp": 4}, {"dp": 2, "tp": 3}, {"pp": 2, "dp": 1, "tp": 3}, {"a": 2, "b": 3, "c": 2, "d": 2}]


@pytest.mark.parametrize("axes", MESHES)
def test_workers_are_numbered_as_numpy_numbers_elements(axes):
    mesh, shape = Mesh(axes), tuple(axes.values())
    assert mesh.num_workers == np.prod(shape)
    for worker in range(mesh.num_workers):
        at = mesh.coordinates(worker)
        assert tuple(at.values()) == np.unravel_index(worker, shape)
        assert mesh.worker(**at) == worker


@pytest.mark.parametrize("axes", MESHES)
def test_groups_along_axes_differ_in_these_only_and_hold_everybody_once(axes):
    mesh = Mesh(axes)
    for along in [*((name,) for name in axes), tuple(axes), tuple(axes)[::-1]]:
        groups = mesh.groups(*along)
        assert sorted(worker for group in groups for worker in group) == list(range(mesh.num_workers))
        for group, place in zip(groups, mesh.places(*along), strict=True):
            assert list(group) == sorted(group)
            assert len(group) == np.prod([axes[name] for name in along])
            others = [{k: v for k, v in mesh.coordinates(each).items() if k not in along} for each in group]
            assert others == [others[0]] * len(group)
            assert place == " ".join(f"{name}={at}" for name, at in others[0].items())


@pytest.mark.parametrize("axes", MESHES)
def test_one_group_is_found_without_the_others(axes):
    mesh = Mesh(axes)
    for along in [*((name,) for name in axes), tuple(axes)]:
        for group in mesh.groups(*along):
            assert [mesh.group_of(worker, along) for worker in group] == [group] * len(group)


def test_without_axes_places_are_those_of_the_workers():
    assert Mesh({"dp": 2, "tp": 2}).places() == ("dp=0 tp=0", "dp=0 tp=1", "dp=1 tp=0", "dp=1 tp=1")
    assert NO_MESH.places() == ()


def test_some_coordinates_name_all_workers_that_have_them():
    mesh = Mesh({"dp": 2, "tp": 3})
    assert mesh.workers(dp=1) == (3, 4, 5)
    assert mesh.workers(tp=0) == (0, 3)
    assert mesh.workers(tp=2, dp=0) == (2,)
    assert mesh.workers() == (0, 1, 2, 3, 4, 5)
    assert NO_MESH.workers() == ()


def test_it_is_a_mapping_that_is_false_without_axes():
    mesh = Mesh({"dp": 2, "tp": 3})
    assert (mesh["tp"], list(mesh), len(mesh), "dp" in mesh, "pp" in mesh) == (
        3,
        ["dp", "tp"],
        2,
        True,
        False,
    )
    assert mesh.get("pp") is None
    assert not NO_MESH
    assert NO_MESH.num_workers == 0


def test_of_two_meshes_the_order_of_the_axes_counts():
    mesh = Mesh({"dp": 2, "tp": 3})
    assert mesh == Mesh({"dp": 2, "tp": 3})
    assert mesh != Mesh({"tp": 3, "dp": 2})
    assert mesh == {"tp": 3, "dp": 2}
    assert mesh != 6
    assert len({mesh, Mesh({"dp": 2, "tp": 3}), NO_MESH}) == 2


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda mesh: mesh["tpp"], "there is no axis 'tpp'; did you mean 'tp'?"),
        (lambda mesh: mesh.groups("zz"), "there is no axis 'zz'; there are: dp, tp"),
        (lambda mesh: mesh.groups(3), "there is no axis 3; there are: dp, tp"),
        (lambda mesh: mesh.groups(), "() should name axes, each once; there are: dp, tp"),
        (lambda mesh: mesh.groups("dp", "dp"), "('dp', 'dp') should name axes, each once"),
        (lambda mesh: mesh.in_order(["zz"]), "there is no axis 'zz'"),
        (lambda mesh: mesh.coordinates(6), "there is no worker 6 in Mesh(dp=2, tp=3)"),
        (lambda mesh: mesh.coordinates(-1), "there is no worker -1"),
        (lambda mesh: mesh.worker(dp=1), "worker() needs tp as well; workers() takes some axes"),
        (lambda mesh: mesh.worker(dp=1, tp=3), "no worker has tp=3; tp goes from 0 to 2"),
        (lambda mesh: mesh.workers(tp=-1), "no worker has tp=-1"),
        (lambda mesh: mesh.workers(tp=True), "tp=True is not a coordinate along tp, expected a whole number"),
        (lambda mesh: mesh.workers(tp=1.0), "tp=1.0 is not a coordinate along tp"),
        (lambda mesh: mesh.coordinates(1.5), "there is no worker 1.5"),
        (lambda mesh: mesh.groups(["dp"]), "there is no axis ['dp']"),
        (lambda mesh: mesh.workers(tpp=0), "there is no axis 'tpp'; did you mean 'tp'?"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(ask, told):
    with pytest.raises(UsageMistake) as caught:
        ask(Mesh({"dp": 2, "tp": 3}))
    assert str(caught.value).startswith(told)


def test_without_a_mesh_the_error_says_how_to_get_one():
    with pytest.raises(UnknownName, match=r"no axis 'tp'; this session has no mesh: .*--mesh dp=2,tp=4"):
        NO_MESH.groups("tp")


def test_axes_are_put_in_the_order_of_the_mesh():
    assert Mesh({"pp": 2, "dp": 2, "tp": 2}).in_order(["tp", "pp", "tp"]) == ("pp", "tp")


# --- what people give ------------------------------------------------------------------------------


def test_text_and_mappings_are_taken():
    assert mesh_of("dp=2, tp = 4") == mesh_of({"dp": 2, "tp": 4}) == Mesh({"dp": 2, "tp": 4})
    assert mesh_of(Mesh({"dp": 2})) == Mesh({"dp": 2})
    assert mesh_of(None) is NO_MESH


@pytest.mark.parametrize("given", ["", "dp", "dp=", "dp=2,", "dp=2;tp=4", "dp=-2", "dp=x", 5, ["dp"]])
def test_what_is_no_mesh_is_refused_with_what_is(given):
    with pytest.raises(UsageMistake, match=r"mesh is .*, expected names of axes with their lengths"):
        mesh_of(given)


def test_an_axis_that_is_named_twice_is_told():
    with pytest.raises(UsageMistake, match="mesh is 'dp=2,tp=2,dp=4', which names an axis twice"):
        mesh_of("dp=2,tp=2,dp=4")


@pytest.mark.parametrize("given", ["dp=2", None, [("dp", 2)]])
def test_it_is_made_of_a_mapping(given):
    with pytest.raises(UsageMistake, match="a mesh is made of a mapping"):
        Mesh(given)


@pytest.mark.parametrize("length", [0, -1, 2.0, True, "2", None])
def test_a_length_that_cannot_be_is_refused_by_its_axis(length):
    with pytest.raises(
        UsageMistake, match=r"axis 'dp' of a mesh has length .*, expected a whole number of at least 1"
    ):
        mesh_of({"dp": length})


@pytest.mark.parametrize("name", ["", "a b", "2", "class", 1])
def test_a_name_has_to_be_one_of_a_variable(name):
    with pytest.raises(UsageMistake, match="is not a name for an axis"):
        mesh_of({name: 2})


# --- as text ---------------------------------------------------------------------------------------


def test_it_is_printed_as_a_table_of_the_ids():
    assert str(Mesh({"pp": 2, "dp": 1, "tp": 2})).splitlines() == [
        "           tp=0  tp=1",
        "pp=0 dp=0     0     1",
        "pp=1 dp=0     2     3",
    ]
    assert str(Mesh({"tp": 3})).splitlines() == ["  tp=0  tp=1  tp=2", "     0     1     2"]
    assert str(NO_MESH) == "no mesh"
    assert (repr(Mesh({"dp": 2, "tp": 2})), Mesh({"dp": 2, "tp": 2}).words) == (
        "Mesh(dp=2, tp=2)",
        "dp=2 tp=2",
    )


def test_in_a_notebook_it_is_a_table_with_heads():
    html = Mesh({"dp": 2, "tp": 2})._repr_html_()
    assert "4 workers in a mesh" in html
    assert '<th scope="col">tp=1</th>' in html
    assert '<th scope="row">dp=1</th><td class="number">2</td><td class="number">3</td>' in html
    assert "<tbody></tbody>" in NO_MESH._repr_html_()

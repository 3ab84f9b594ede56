"""Figures of the inline backend in a shell of this process; how several of them look side by side."""

from __future__ import annotations

import base64
import sys
from types import SimpleNamespace

import pytest
from IPython.core.displaypub import DisplayPublisher

matplotlib = pytest.importorskip("matplotlib", reason="the extra 'lab' has it")

from disco_magic.notebook.libraries.figures import INLINE, fit_show  # noqa: E402
from disco_magic.notebook.libraries.plot_settings import fit_settings  # noqa: E402
from disco_magic.notebook.output.arrange import Item, by_equality, by_order  # noqa: E402 - as above
from disco_magic.notebook.output.gallery import gallery  # noqa: E402

# --- in a shell of this process --------------------------------------------------------------------


class FrontEnd(DisplayPublisher):
    """Keeps the data and metadata that it is to show."""

    def __init__(self, shell):
        super().__init__(parent=shell)
        self.shown = []

    def publish(self, data, metadata=None, **kwargs):
        self.shown.append((data, metadata))


@pytest.fixture
def inline(four, monkeypatch):
    """A front end that shows inline figures of four workers as PNG; `plot` makes one."""
    from IPython.core.pylabtools import select_figure_formats
    from matplotlib_inline.config import InlineBackend

    monkeypatch.setattr("IPython.core.formatters.get_ipython", lambda: four.ip)
    with matplotlib.rc_context({"interactive": True}):
        matplotlib.use(f"module://{INLINE}")
        select_figure_formats(four.ip, {"png"})
        four.ip.display_pub = front = FrontEnd(four.ip)
        front.backend = InlineBackend.instance()
        four.run(
            "%%disco\nimport matplotlib.pyplot as plt\n"
            "def plot():\n    plt.figure(figsize=(1, 1))\n    plt.plot([1, worker_id])\n"
            "    plt.xticks([]), plt.yticks([])"
        )
        yield front
        four.run("%%disco\nplt.close('all')")
        InlineBackend.clear_instance()
        matplotlib.use("agg")


def test_figures_come_at_the_end_in_one_display(four, inline):
    four.run("%%disco\nplot()\nprint('line')")
    ((data, metadata),) = inline.shown
    assert data["text/html"].count("data:image/png;base64,") == 4
    assert metadata == {"disco": {"workers": [0, 1, 2, 3]}}
    assert sorted(four.lines) == [f"[{worker}] line" for worker in range(4)]
    assert data["text/plain"].splitlines()[3] == "[3] <Figure size 100x100 with 1 Axes>"


def test_nothing_comes_of_a_cell_without_figures_or_whose_figures_nobody_sees(four, inline):
    four.run("%%disco\n1")
    four.run("%%disco --output none\nplot()")
    four.run("%%disco\nplot()\nplt.close()")
    assert inline.shown == []
    assert four.run("%%disco\nplt.get_fignums()")[0] == []


def test_a_figure_that_is_the_value_is_not_shown_beside_it(four, inline):
    assert set(four.run("%%disco -w 1\nplot()\nplt.gcf()").shown[1]) == {"text/plain", "image/png"}
    assert inline.shown == []


def test_without_closing_new_figures_are_shown_and_go_on(four, inline):
    inline.backend.close_figures = False
    four.run("%%disco -w 2\nplot()")
    four.run("%%disco -w 2\nplt.title('it')")
    assert len(inline.shown) == 1
    assert four.run("%%disco -w 2\nplt.get_fignums()")[2] == [1]


def test_a_figure_that_fails_fails_the_cell_or_is_noted(four, inline):
    bad = "%%disco -w 1\nplot()\nplt.xlabel(r'$\\nonsense$')\n"
    assert "nonsense" in four.fail(bad).failures[1].summary
    error = four.fail(f"{bad}1 / 0").failures[1].exception
    assert error.__notes__[0].startswith("its figures could not be drawn: ValueError")
    four.run("%%disco\nplot()")
    assert len(inline.shown) == 1


def test_outside_of_workers_everything_is_the_notebook_s(four, inline):
    import matplotlib.pyplot as plt
    from matplotlib._pylab_helpers import Gcf

    figure = plt.figure()
    show = sys.modules[INLINE].show
    assert show._draw_called
    assert show._to_draw == [figure]
    assert "plot" not in four.run("%%disco -w 0\nplt.get_fignums()").text()
    assert (list(Gcf.figs), list(reversed(Gcf.figs)), len(Gcf.figs)) == ([1], [1], 1)
    assert "FigureManager" in repr(Gcf.figs)
    Gcf.figs.move_to_end(1)
    del Gcf.figs[1]
    show()
    assert show._to_draw == []
    show._draw_called = False
    assert sys.modules[INLINE].show.__wrapped__._draw_called is False


def test_a_backend_that_is_not_the_inline_one_as_we_know_it_is_left_alone():
    assert fit_show(SimpleNamespace(show=print)) is None
    other = SimpleNamespace(rcParams={}, RcParams=dict, rc_context=None)
    assert fit_settings(other) is None


def test_settings_of_a_worker_can_be_copied_and_pickled(four, inline):
    four.run(
        "%%disco -w 1\nimport matplotlib, pickle\nrc = matplotlib.rcParams\nrc['figure.dpi'] = 55\n"
        "copied, pickled = rc.copy(), pickle.loads(pickle.dumps(rc))\ncopied['figure.dpi'] = 66"
    )
    found = four.run("%%disco -w 1\n[each['figure.dpi'] for each in (rc, copied, pickled)]")
    assert found[1] == [55.0, 66.0, 55.0]
    assert matplotlib.rcParams["figure.dpi"] != 55.0
    with matplotlib.rc_context({"figure.dpi": 33}):
        assert matplotlib.rcParams["figure.dpi"] == 33.0


def test_a_file_of_settings_holds_for_a_block_too(four, inline, tmp_path):
    (tmp_path / "style").write_text("figure.dpi: 44")
    path = str(tmp_path / "style")
    four.ip.user_ns["path"] = path
    ran = four.run(
        "%%disco -w 1 --push path\nimport matplotlib\nseen = []\n"
        "with matplotlib.rc_context({'font.size': 7}, fname=path):\n"
        "    seen.append(matplotlib.rcParams['figure.dpi'])\n"
        "seen + [matplotlib.rcParams['figure.dpi'] == 44, matplotlib.rcParams['font.size'] == 7]"
    )
    assert ran[1] == [44.0, False, False]


# --- a gallery -------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x64\0\0\0\x10"


def picture(data, **metadata):
    return Item("picture", data={"text/plain": "<Figure>", **data}, kwargs={"metadata": metadata})


def html_of(*pictures):
    shown = by_order({worker: [each] for worker, each in enumerate(pictures)})
    return gallery(shown, lambda workers: f"<b>{list(workers)}</b>")["text/html"]


def test_columns_are_as_wide_as_the_widest_picture_but_let_two_stand_side_by_side():
    small, wide = picture({"image/png": PNG}), picture({"image/jpeg": "AAAA"})
    assert "minmax(min(100%,100px),1fr)" in html_of(small, small)
    assert "minmax(min(100%,340px),1fr)" in html_of(small, wide)


def test_a_picture_of_double_density_keeps_its_size():
    html = html_of(picture({"image/png": PNG}, **{"image/png": {"width": 50, "height": 8}}))
    assert ' width="50"' in html
    assert "min(100%,50px)" in html


def test_a_transparent_picture_gets_the_background_it_needs():
    assert "background:#ffffff" in html_of(picture({"image/png": PNG}, needs_background="light"))
    assert "background" not in html_of(picture({"image/png": PNG}))


def test_what_has_no_picture_is_its_text():
    assert "<pre>&lt;Figure&gt;</pre>" in html_of(picture({}))


def test_a_drawing_becomes_an_image_of_its_own():
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
    assert base64.b64encode(svg).decode() in html_of(picture({"image/svg+xml": svg.decode()}))


def test_equal_pictures_are_one_under_all_their_workers():
    pictures = {worker: [picture({"image/png": PNG})] for worker in range(3)}
    assert [workers for workers, _ in by_equality(pictures)] == [(0, 1, 2)]

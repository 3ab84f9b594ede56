"""clear_output of one worker among others: its next output takes the place of what it has shown."""

from __future__ import annotations

from disco_magic.notebook.output.arrange import Item
from tests.conftest import until
from tests.notebook.output.pages import show_image


def clear(sink, *, wait=True):
    sink.clear(lambda **_: None, wait=wait)


def pass_time(notebook, page, seconds=0.2):
    notebook.clock.now += seconds
    page.look()


def finish(sinks):
    for sink in sinks:
        sink.finish()


def test_the_next_image_of_a_worker_takes_the_place_of_its_former_one(notebook):
    page, (first, second) = notebook()
    for turn in range(3):
        clear(first)
        show_image(notebook, first, f"figure {turn}")
        pass_time(notebook, page)
    finish((first, second))
    assert notebook.log == [("html", [0]), ("update html", [0]), ("update html", [0])]
    assert notebook.seen == [["[0]", f"figure {turn}"] for turn in range(3)]


def test_the_others_images_stay_beside_it(notebook):
    page, sinks = notebook()
    for sink in sinks:
        show_image(notebook, sink, "old")
    pass_time(notebook, page)
    clear(sinks[1])
    show_image(notebook, sinks[1], "new")
    pass_time(notebook, page)
    assert notebook.seen == [["[0]", "old", "[1]", "old"], ["[0]", "old", "[1]", "new"]]


def test_the_former_image_stays_until_the_next_one_comes_and_for_ever_if_none_does(notebook):
    page, (first, second) = notebook()
    show_image(notebook, first)
    pass_time(notebook, page)
    clear(first)
    pass_time(notebook, page, 60)
    finish((first, second))
    assert notebook.log == [("html", [0])]


def test_an_image_that_nobody_has_seen_is_not_lost_by_clearing(notebook):
    _, (first, second) = notebook()
    show_image(notebook, first)
    clear(first)
    finish((first, second))
    assert notebook.log == [("out", "[0]\n"), ("image", [0])]


def test_without_waiting_it_is_gone_at_once_but_for_one_that_was_not_seen(notebook):
    page, (first, second) = notebook()
    show_image(notebook, first)
    clear(first, wait=False)
    pass_time(notebook, page)
    pass_time(notebook, page)
    assert notebook.seen == [["[0]", "figure"], []]
    finish((first, second))
    assert notebook.log == [("html", [0]), ("update html", [])]


def test_what_was_cleared_without_waiting_is_not_there_at_the_end(notebook):
    _, (first, second) = notebook()
    show_image(notebook, first)
    clear(first, wait=False)
    finish((first, second))
    assert notebook.log == []


def test_an_image_stays_while_its_worker_writes_about_the_next_one_which_takes_up_to_two_seconds(notebook):
    page, (first, second) = notebook()
    show_image(notebook, first, "old")
    pass_time(notebook, page)
    clear(first)
    first.writer("stdout")("next\n")
    pass_time(notebook, page, 1.9)
    assert notebook.seen == [["[0]", "old"]]
    show_image(notebook, first, "new")
    clear(first)
    first.writer("stdout")("none\n")
    pass_time(notebook, page, 2.0)
    assert notebook.seen[1:] == [["[0]", "next", "new"], ["[0]", "none"]]
    finish((first, second))


def test_a_wait_that_ends_meanwhile_does_not_end_the_looking(notebook):
    page, (first, _) = notebook()
    show_image(notebook, first, "old")
    pass_time(notebook, page)
    with page.waited_for():
        page.area.end_wait()  # the fixture's own
        clear(first)
        first.writer("stdout")("next\n")
    notebook.clock.now += 2.0
    until(lambda: len(notebook.seen) > 1)
    assert notebook.seen[1:] == [["[0]", "next"]]


def test_of_several_images_each_stays_until_its_next_one_comes(notebook):
    page, (first, _) = notebook()
    for turn in ("old", "new"):
        clear(first)
        show_image(notebook, first, f"{turn} left")
        pass_time(notebook, page)
        show_image(notebook, first, f"{turn} right")
        pass_time(notebook, page)
    assert notebook.seen[1:] == [
        ["[0]", f"{left} left", "[0]", f"{right} right"]
        for left, right in (("old", "old"), ("new", "old"), ("new", "new"))
    ]


def test_a_worker_that_draws_faster_is_shown_five_times_a_second_and_as_it_is_last(notebook):
    page, (first, second) = notebook()
    for turn in range(100):
        clear(first)
        show_image(notebook, first, f"figure {turn}")
        pass_time(notebook, page, 0.01)
    assert 4 <= len(notebook.log) <= 6
    finish((first, second))
    assert notebook.seen[-1] == ["[0]", "figure 99"]


def test_what_nobody_watches_is_shown_soon_and_not_at_every_turn(notebook):
    page, (first, _) = notebook()
    page.area.end_wait()
    for turn in range(3):
        clear(first)
        show_image(notebook, first, f"figure {turn}")
    assert notebook.seen == [["[0]", "figure 0"]]
    notebook.clock.now += 0.2
    until(lambda: len(notebook.seen) > 1)
    assert notebook.seen[1:] == [["[0]", "figure 2"]]


def test_lines_and_tables_that_a_worker_writes_after_it_has_cleared_go_with_the_next_clearing(notebook):
    page, (first, second) = notebook()
    for turn in range(2):
        clear(first)
        first.writer("stdout")(f"turn {turn}\n")
        first.writer("stderr")("late\n")
        first.display(notebook.kernel.publish, {"text/html": f"<b>{turn}</b>"}, {"metadata": None})
        show_image(notebook, first)
        first.writer("stdout")("and more\n")
        pass_time(notebook, page)
    second.writer("stdout")("line of another\n")
    assert notebook.log == [("html", [0]), ("update html", [0]), ("out", "[1] line of another\n")]
    shown = [["[0]", f"turn {turn}", "late", str(turn), "[0]", "figure", "and more"] for turn in range(2)]
    assert notebook.seen == shown


def test_a_short_cell_that_clears_first_writes_lines_as_any(notebook):
    _, sinks = notebook()
    for sink in sinks:
        clear(sink)
        sink.writer("stdout")("line\n")
    finish(sinks)
    assert notebook.log == [("out", "[0] line\n"), ("out", "[1] line\n")]


def test_lines_beside_an_image_that_come_at_the_very_end_are_beside_it(notebook):
    _, sinks = notebook()
    clear(sinks[0])
    sinks[0].writer("stdout")("line\n")
    for sink in sinks:
        show_image(notebook, sink)
    finish(sinks)
    assert notebook.seen == [["[0]", "line", "figure", "[1]", "figure"]]


def test_more_lines_than_can_be_replaced_are_lines_as_any_until_the_next_clearing(notebook):
    page, (first, _) = notebook()
    clear(first)
    first.writer("stdout")("few\n")
    first.writer("stdout")("many\n" * 100)
    assert notebook.log == [("html", [0]), ("out", "[0] many\n" * 100)]
    show_image(notebook, first, "below")
    pass_time(notebook, page)
    clear(first)
    first.writer("stdout")("few\n")
    pass_time(notebook, page, 2.0)
    assert notebook.seen == [["[0]", "few"], ["[0]", "below"], [], ["[0]", "few"]]


def test_more_images_than_can_be_replaced_come_one_below_the_other(notebook):
    page, (first, second) = notebook()
    clear(first)
    for turn in range(10):
        show_image(notebook, first, f"figure {turn}")
        pass_time(notebook, page)
    finish((first, second))
    assert notebook.log == [("html", [0]), *[("update html", [0])] * 7, *[("html", [0])] * 2]
    assert notebook.seen[-1] == ["[0]", "figure 9"]


def test_of_displays_that_can_change_the_oldest_is_left_as_it_is(notebook):
    page, (first, second) = notebook()
    for turn in range(9):
        show_image(notebook, first, f"figure {turn}")
        pass_time(notebook, page)
    clear(first)
    show_image(notebook, first, "last")
    finish((first, second))
    assert notebook.seen[9:] == [*[[]] * 7, ["[0]", "last"]]


def test_what_cannot_stand_among_others_is_a_display_of_its_own(notebook):
    _, (first, _) = notebook()
    clear(first)
    show_image(notebook, first)
    first.display(notebook.kernel.publish, {"application/x-own+json": {}}, {"metadata": None})
    assert notebook.log == [("html", [0]), ("out", "[0]\n"), ("image", [0])]


def test_figures_of_the_cell_s_end_replace_what_was_cleared(notebook):
    page, (first, second) = notebook()
    show_image(notebook, first)
    pass_time(notebook, page)
    clear(first)
    first.pictures([Item("picture", data={"text/plain": "last", "image/png": "iVBOR"})])
    finish((first, second))
    assert notebook.seen == [["[0]", "figure"], ["[0]", "last"]]


def test_in_output_that_is_kept_what_was_cleared_is_not_shown_but_for_the_last(notebook):
    _, (first, second) = notebook("ordered")
    first.writer("stdout")("old\n")
    clear(first)
    first.writer("stdout")("new\n")
    clear(first)
    second.writer("stdout")("gone\n")
    clear(second, wait=False)
    finish((first, second))
    assert notebook.log == [("out", "[0] new\n")]

"""What is left of drawings for the reader of a saved notebook."""

from __future__ import annotations

import re

from disco_magic.notebook.pictures.charts import lines_svg
from disco_magic.notebook.pictures.kept import kept
from disco_magic.notebook.timeline.picture import timeline_bundle
from tests.timelines import MANY

SAID = "drawings are shown once the notebook is trusted"


def untrusted(html):
    """What JupyterLab shows of a notebook that is not trusted: neither styles nor the tags of SVG."""
    return " ".join(re.sub(r"<[^>]*>", "", re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)).split())


def test_a_notebook_that_is_not_trusted_has_no_tooltips_of_a_timeline_as_text():
    html = timeline_bundle(MANY)["text/html"]
    assert "<title>" not in html
    assert "cell: Cell In[2]" in html  # as an attribute
    text = untrusted(html)
    assert "cell: Cell In[2]" not in text
    assert text.startswith(SAID)
    assert re.search(r"\bs \d+ s worker 0 Cell In\[2\] ", text), text  # words do not run together


def test_tooltips_are_attributes_which_go_with_their_tags(parse):
    html = lines_svg({0: [("[1]", 1.0), ('<&"', 2.0), ("[3]", float("nan"))]})
    page = parse(kept(html))
    tips = [each.get("{http://www.w3.org/1999/xlink}title") for each in page.all("a") if len(each) == 1]
    assert tips == ["[0] [1]: 1", '[0] <&": 2', "[0] [3]: nan"]
    assert page.all("title") == []
    assert [text for text in page.texts("text") if text == "\u00d7"] == ["\u00d7"]


def test_the_sentence_about_trust_is_hidden_where_styles_are_kept():
    assert ".disco-untrusted{display:none}" in kept(lines_svg({0: [("[1]", 1.0)]}))


def test_what_has_no_drawing_is_kept_as_it_is():
    assert kept("<div>none</div>") == "<div>none</div>"

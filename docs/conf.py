"""How Sphinx makes the site: ``make docs``.

The source folder is the repository itself: pages, notebooks and ``ARCHITECTURE.md`` are read where they lie,
so that a link between two of them is the same on the site and on GitHub. Nothing is downloaded and no
notebook is executed while it is built, and the pages load nothing from elsewhere.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx import addnodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_INIT = Path(__file__).parents[1] / "disco_magic" / "__init__.py"

project = "disco_magic"
author = "the authors of disco_magic"
(release,) = re.findall(r'^__version__ = "(.+)"$', _INIT.read_text(encoding="utf-8"), re.MULTILINE)
version = release

# --- what is read ----------------------------------------------------------------------------------

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "notebooks/*.ipynb",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
]
# Not only files: Sphinx does not even look into folders that are named here.
exclude_patterns = [".*", "build", "dist", "disco_magic*", "docs/_*", "htmlcov", "kernel", "tests", "**/.*"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
]

highlight_language = "text"  # of what is only indented
myst_heading_anchors = 4  # as GitHub names them
nb_execution_mode = "off"  # their committed outputs are shown
nb_render_error_lexer = "text"
nb_ipywidgets_js: dict[str, object] = {}  # would be loaded from elsewhere, and the notebooks hold no widgets

# --- docstrings ------------------------------------------------------------------------------------

smartquotes_action = "D"  # dashes; a quote is Python's
default_role = "py:obj"  # `name` is a link where there is such a name, and code where there is none
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, not an entry of the index for each
toc_object_entries_show_parents = "hide"


def _keep_prose_whole(  # the event's arguments
    _: Sphinx, what: str, _name: str, _value: object, _options: object, lines: list[str]
) -> None:
    """Let what stands before a colon be a type only where it is one word: after "Returns:", of a property.

    Napoleon looks for it in one line alone: the word with the colon goes into the next one.
    """
    places = [place + 1 for place, line in enumerate(lines[:-1]) if line.strip() == "Returns:"]
    for place in [0] * (what in ("data", "property")) + places:
        found = re.match(r"( *)((?:[^:`]|`[^`]*`)+) (\S+:(?: .*)?)$", lines[place])
        if found and " " in re.sub(r"\[.*|\|", "", found[2]).strip():
            indent, before, after = found.groups()
            lines[place : place + 1] = [indent + before, indent + after]


# Names of functions that are more often those of parameters.
_PARAMETERS = {"device", "errors", "session", "support", "worker"}


def _unlink_parameters(_: Sphinx, page: nodes.document) -> None:
    """Let `worker` in a docstring be what the parameters say, and no link to a function of that name."""
    from sphinx import addnodes

    for link in list(page.findall(addnodes.pending_xref)):
        if link.get("reftype") == "obj" and link["reftarget"] in _PARAMETERS:
            link.replace_self(link.children)


def _link_by_last_name(
    app: Sphinx, env: BuildEnvironment, link: addnodes.pending_xref, text: nodes.Element
) -> nodes.Element | None:
    """Let `Failure` lead to the only class of that name, wherever it is: docstrings do not name modules."""
    from sphinx.util.nodes import make_refnode

    target = link.get("reftarget", "")
    if link.get("refdomain") != "py" or not target[:1].isupper():
        return None
    found = [
        (name, entry)
        for name, entry in env.domains.python_domain.objects.items()
        if name.endswith(f".{target}") and not entry.aliased
    ]
    if len(found) != 1:
        return None
    ((name, entry),) = found
    return make_refnode(app.builder, link["refdoc"], entry.docname, entry.node_id, text, name)


# All other classes are made by the package itself: how is of no use to those who read about them.
_MADE_BY_USERS = {"ThreadedSession", "Device", "Shard", "Window", "Gate", "SimulatedGpus"}


def _hide_constructor(  # the event's arguments
    _: Sphinx, what: str, name: str, _value: object, _options: object, signature: str | None, _result: object
) -> tuple[str, None] | None:
    is_class = what in ("class", "exception")
    return ("", None) if signature and is_class and name.rpartition(".")[2] not in _MADE_BY_USERS else None


# --- examples --------------------------------------------------------------------------------------

# `tests/test_docs.py` reads these, too.
doctest_global_setup = """
import numpy as np
import disco_magic as disco
session = disco.ThreadedSession(4)
"""
doctest_global_cleanup = "session.shutdown()"
doctest_default_flags = doctest.ELLIPSIS | doctest.DONT_ACCEPT_TRUE_FOR_1


def _mark_examples(_: Sphinx, page: nodes.document) -> None:
    """Let the doctest builder run what pages mark as ``pycon``, which GitHub understands, too."""
    from docutils import nodes

    for block in page.findall(nodes.literal_block):
        if block.get("language") == "pycon":
            block["testnodetype"], block["groups"], block["options"] = "doctest", ["default"], {}


# --- the look --------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "disco_magic"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]  # index.html, which leads to docs/index.html
html_copy_source = False
html_show_search_summary = False  # would be fetched, which browsers refuse where the site is a folder

_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^>]*>")


def _warn_of_what_is_elsewhere(app: Sphinx, error: Exception | None) -> None:
    """Warn of scripts, styles and pictures that a page would load from another host."""
    from sphinx.util import logging

    if error is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):
            for tag in _ELSEWHERE.findall(page.read_text(encoding="utf-8")):
                logging.getLogger(__name__).warning("%s would load %s", page.relative_to(app.outdir), tag)


def setup(app: Sphinx) -> None:
    """What no option says."""
    app.connect("autodoc-process-docstring", _keep_prose_whole, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", _hide_constructor)
    app.connect("doctree-read", _mark_examples)
    app.connect("doctree-read", _unlink_parameters)
    app.connect("missing-reference", _link_by_last_name)
    app.connect("build-finished", _warn_of_what_is_elsewhere)

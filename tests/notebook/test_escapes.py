"""The transforms of IPython for a workers' cell, which are skipped where they would find nothing."""

from __future__ import annotations

import itertools
import re

import pytest
from IPython.core.inputtransformer2 import TokenTransformBase, TransformerManager

from disco_magic.notebook.escapes import as_python
from disco_magic.notebook.tracebacks import CellSyntaxError

# Lines that IPython changes, and ones that only look like it.
LINES = (
    "",
    "a = 1\n",
    "if a:\n",
    "    !ls -l\n",
    "%time a\n",
    "  %time a\n",
    "\t,f 1 2\n",
    "/f 1\n",
    "; f 1\n",
    "f(1\n",
    ", 2)\n",
    "b = %pwd\n",
    "b =   !ls\n",
    "b = \\\n",
    "b == !c\n",
    "a?\n",
    "    ??a\n",
    "'why?'\n",
    "c = a % 2\n",
    "d = '%s' % a\n",
    "'''\n",
    "# %time\n",
    ">>> %time a\n",
    "... a\n",
    "In [1]: !ls\n",
    "%%time\n",
    "e = 1\r!ls\n",
    "e = 1\f%pwd\n",
    "e\u2028%pwd\n",
    "!ls",
    "  \n",
    " \t",
    ">>> a\n",
    "    >>> a\n",
    "  ...: a\n",
    "[nav] In [12]: a\n",
)
ENDS = ("", "a = 1\n", "    !ls\n", ", 2)\n", "'''\n", "%pwd")


def outcome(transform, text):
    try:
        return transform(text)
    except SyntaxError as error:
        return type(error)


@pytest.mark.filterwarnings("ignore:.make_tokens_by_line")  # of the character that only Python ends lines at
@pytest.mark.parametrize("first", LINES)
def test_a_text_becomes_what_ipython_makes_of_it(first):
    manager = TransformerManager()
    for second, third in itertools.product(LINES, ENDS):
        text = first + second + third
        theirs = outcome(manager.transform_cell, text)
        if theirs is not IndentationError:  # then the compiler raises it, with the line of the cell
            assert outcome(lambda text: as_python(manager, text), text) == theirs


def test_a_text_without_escapes_is_not_taken_apart_into_tokens(monkeypatch):
    manager = TransformerManager()
    monkeypatch.setattr(manager, "do_token_transforms", None)
    text = "def f(a):\n    return '%d' % (a % 2), a != 3\n\n\nb = f(\n    1\n)\n"
    assert as_python(manager, text) == text


class Shouted(TokenTransformBase):
    """Turns ``loud`` into ``LOUD``: a transformer that only its user knows."""

    @classmethod
    def find(cls, tokens_by_line):
        found = (token for line in tokens_by_line for token in line if token.string == "loud")
        return next((cls(token.start) for token in found), None)

    def transform(self, lines):
        return [line.replace("loud", "LOUD") for line in lines]


def test_a_transformer_that_the_user_has_added_is_asked_about_every_text():
    manager = TransformerManager()
    manager.token_transformers.append(Shouted)
    assert as_python(manager, "a = loud") == "a = LOUD\n"


def test_what_a_transformer_of_the_user_makes_of_a_text_is_changed_by_those_after_it():
    def indented(lines):
        return [f"    {line}" for line in lines]

    manager = TransformerManager()
    manager.cleanup_transforms.insert(0, indented)
    assert as_python(manager, "a = 1\nb = 2") == "a = 1\nb = 2\n"


def test_a_line_that_is_indented_wrongly_is_shown_as_a_line_of_the_cell(shell):
    # IPython's tokens do not know about the magic's line: it was shown as line 3 of a file <tokenize>.
    shell.run("%disco start -n 1")
    shell.fail("%%disco\nif True:\n        a = 1\n    b = 2", CellSyntaxError)
    assert re.search(r"File <ipython-input-.*>:4\n", shell.out)

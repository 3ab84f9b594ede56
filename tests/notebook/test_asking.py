"""`input` on several workers at once."""

from __future__ import annotations

import builtins
import threading


def test_workers_ask_one_after_the_other_and_say_who_they_are(crew, monkeypatch):
    inside, overlaps, prompts = [], [], []
    seen = threading.Event()

    def answer(prompt):
        inside.append(prompt)
        seen.wait(0.05)  # time for another worker to come in, if it could
        overlaps.append(len(inside))
        inside.remove(prompt)
        prompts.append(prompt)
        return prompt[1]

    monkeypatch.setattr(builtins, "input", answer)
    result = crew.run("%%disco\nint(input('name? '))")
    assert result.values == list(range(len(result)))
    assert sorted(prompts) == [f"[{worker}] name? " for worker in range(len(result))]
    assert set(overlaps) == {1}

"""A small real corpus on disk for the tests of the training loops."""

from __future__ import annotations

import json
from pathlib import Path

from components.contracts.folding import ContextLimits, Turn, fold
from components.curation.corpora import Sample, dump_messages, write_corpus
from components.rollout.screens import encode_png, screen_digest
from components.rollout.store import StoredScreen
from tests.unit.training.kit import response, screen


def make_corpus(folder: Path, samples: int = 10, packs: int = 3, seed: int = 0) -> Path:
    """`samples` agent steps with up to three pictures and `packs` click packs."""
    screens: dict[str, StoredScreen] = {}

    def picture(number: int) -> str:
        made = screen(seed * 1000 + number)
        digest = screen_digest(made)
        screens[digest] = StoredScreen(encode_png(made))
        return digest

    rows = []
    for i in range(samples):
        turns = [Turn(picture(10 * i + k), None, response(k), f"click {k}") for k in range(i % 4)]
        newest = Turn(picture(10 * i + 9))
        messages = fold("You work.", f"delete total{seed}{i}.txt", [*turns, newest], ContextLimits(3, 4, 12))
        images = tuple(p.image for m in messages for p in m.parts if hasattr(p, "image"))
        rows.append(
            Sample(f"t{i}/0", "agent", "delete a file", f"t{i}", 0, dump_messages(messages), response(i), i % 2 == 0,
                   1.0 + i % 3, images)
        )  # fmt: skip
    for i in range(packs):
        digest = picture(5000 + i)
        items = [{"instruction": f"click the save button {k}", "response": response(k)} for k in range(3)]
        body = json.dumps({"system": "You point.", "screen": digest, "items": items})
        rows.append(Sample(f"p{i}", "click_pack", "grounding-synth", "", 0, body, "", True, 1.0, (digest,)))
    write_corpus(folder, rows, screens, {})
    return folder

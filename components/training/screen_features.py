"""Screenshots that went through the frozen vision encoder once, before a stage begins, for all its steps and ranks.

With the encoder frozen a screenshot always gives the same features, and a stage shows each one several times. The ranks
share the work and the memory: every rank encodes its chunks into one anonymous shared map that was made before the
fork. Chunks are of one size and the same in every run, so a resumed stage computes bit-equal features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from components.training.model import Policy
from components.training.parallel import Ranks, shared_tensor

if TYPE_CHECKING:
    import torch

    from components.rollout.store import ScreenTable

CHUNK = 16
"""Screenshots per forward pass. The last chunk is filled up: the size of a product must not change its rounding."""
LIMIT_BYTES = 1 << 30
"""More features than this are not kept: such a stage encodes its screenshots step by step."""


@dataclass(frozen=True)
class Encoded:
    """One screenshot's visual tokens: (rows * columns, hidden) features and (rows, columns)."""

    features: torch.Tensor
    size: tuple[int, int]


class ScreenFeatures(Mapping[str, Encoded]):
    """Features of screenshots by digest. Make it before the ranks are forked, `fill` it in every rank."""

    def __init__(self, policy: Policy, pictures: ScreenTable, digests: Iterable[str], size: tuple[int, int]) -> None:
        import torch

        self._pictures, self._size = pictures, size
        self._index = {digest: number for number, digest in enumerate(sorted(digests))}
        shape = (len(self._index), size[0] * size[1], hidden_size(policy))
        self._features = shared_tensor(shape, torch.float32)

    def fill(self, policy: Policy, ranks: Ranks) -> None:
        """Encode this rank's chunks and wait for the others'."""
        import torch

        digests = list(self._index)
        with torch.no_grad():
            for start in ranks.share(list(range(0, len(digests), CHUNK))):
                own = digests[start : start + CHUNK]
                screens = [self._pictures[digest] for digest in own]
                screens += [screens[-1]] * (CHUNK - len(screens))
                patches = torch.from_numpy(np.concatenate([policy.grid.patches(screen) for screen in screens]))
                made = policy.image_features(patches, [self._size] * CHUNK)
                self._features[start : start + len(own)] = made.view(CHUNK, *self._features.shape[1:])[: len(own)]
        ranks.gather(len(digests))

    def __getitem__(self, digest: str) -> Encoded:
        return Encoded(self._features[self._index[digest]], self._size)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)


def hidden_size(policy: Policy) -> int:
    """Width of a visual token."""
    return int(policy.model.config.vision_config.out_hidden_size)


def features_for(policy: Policy, pictures: ScreenTable, digests: Iterable[str]) -> ScreenFeatures | None:
    """Room for the features of these screenshots; None where they cannot be kept (see `LIMIT_BYTES`).

    They are not kept either where the encoder is being trained or the screenshots differ in size.
    """
    wanted = sorted(set(digests))
    if not policy.vision_frozen or not wanted:
        return None
    sizes = {pictures.shape(digest) for digest in wanted}
    if len(sizes) != 1:
        return None
    ((height, width),) = sizes
    size = policy.grid.tokens(height, width)
    if len(wanted) * size[0] * size[1] * hidden_size(policy) * 4 > LIMIT_BYTES:
        return None
    return ScreenFeatures(policy, pictures, wanted, size)

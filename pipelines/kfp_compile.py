"""`python -m pipelines.kfp_compile`: write the compiled twin, which a cluster takes and a review can read."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from components.contracts.errors import ClusterError

COMPILED = Path(__file__).parent / "compiled" / "recipe.yaml"
LIMIT_BYTES = 250_000
"""A quarter of what Kubeflow accepts (1 MiB of workflow with its status), so that no server has to refuse it."""


def compile_recipe(target: Path) -> None:
    """Write the pipeline's intermediate representation. The same source gives the same bytes."""
    from kfp import compiler

    from pipelines.recipe import recipe

    target.parent.mkdir(parents=True, exist_ok=True)
    compiler.Compiler().compile(recipe, str(target))
    check_size(target.stat().st_size)


def check_size(size: int) -> None:
    """Raises ClusterError, before anything is submitted, for a compiled pipeline of more than `LIMIT_BYTES` bytes."""
    if size > LIMIT_BYTES:
        raise ClusterError(
            f"the compiled pipeline has {size:,} bytes, the limit is {LIMIT_BYTES:,}",
            where="kfp",
            remedy="move what is large into artifacts, or split the pipeline",
        )


def main() -> int:
    """Write the file when it changed."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "recipe.yaml"
        compile_recipe(fresh)
        changed = not COMPILED.exists() or fresh.read_bytes() != COMPILED.read_bytes()
        if changed:
            COMPILED.parent.mkdir(parents=True, exist_ok=True)
            COMPILED.write_bytes(fresh.read_bytes())
    print(f"{'wrote' if changed else 'up to date:'} {COMPILED.name}, {COMPILED.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

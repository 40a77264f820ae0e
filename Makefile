# make recipe   the whole recipe on this machine        make test    style, types, tests
# make bench    figures with the machine's description  make clean   forget runs, outputs and caches
# make env      the environment alone (.venv, from requirements/lock.txt)
# make desktops the packages of real desktops (backend x11), where they may be installed
# make test-desktops   these packages, then the tests of real desktops (skipped, with the reason, where there are none)
#
# Settings for `env` stand in .ci/env; ARGS goes to the command, e.g. make recipe ARGS="--profile smoke".
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
unexport PYTHONDONTWRITEBYTECODE VIRTUAL_ENV
export PYTHON TORCH_INDEX PIP_FIND_LINKS COWORK_ALLOW_CUDA_TORCH COWORK_NO_SYSTEM
# One thread a process, two processes: measured faster here than OpenMP, and it keeps results the same.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
ARGS ?=

.PHONY: recipe test test-full test-desktops bench clean env lock desktops
recipe: env
	.venv/bin/cowork run $(ARGS)

test: env
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/python -m pytest -m "not full" -n 2 --dist loadfile --ignore tests/x11 $(ARGS)

# One after the other, nothing beside them: people at real desktops click in time.
test-desktops: env desktops
	.venv/bin/python -m pytest -m "not full" tests/x11 $(ARGS)

test-full: env
	.venv/bin/python -m pytest $(ARGS)

bench: env
	.venv/bin/python -m pipelines.bench $(ARGS)

env:
	@.ci/env

desktops:
	@.ci/x11

lock:
	requirements/relock.sh

clean:
	rm -rf outputs .cowork .dvc/cache .dvc/tmp pipelines/codekeys.yaml
	rm -rf .pytest_cache .mypy_cache .ruff_cache build dist

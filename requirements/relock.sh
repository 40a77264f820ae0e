#!/usr/bin/env bash
# Makes requirements/lock.txt anew: all versions and hashes, no address of any index.
#
# Run it on a machine whose pip knows a CPU wheel of torch (PIP_FIND_LINKS): with that wheel the lock holds no CUDA
# packages. Torch's entry gets the hashes of that wheel and of the release on the public index, so that either installs.
set -euo pipefail
cd "$(dirname "$0")/.."
links="${PIP_FIND_LINKS:-$(python3 -m pip config get global.find-links 2>/dev/null || true)}"
[ -n "$links" ] || { echo "no PIP_FIND_LINKS with a CPU wheel of torch: the lock would hold CUDA packages" >&2; exit 1; }
work="$(mktemp -d)"; trap 'rm -rf "$work"' EXIT
quiet=(--python-version 3.11 --generate-hashes --no-header --no-annotate --quiet)
UV_FIND_LINKS="$links" uv pip compile "${quiet[@]}" --extra all-cpu --extra dev -o "$work/all.txt" \
  pyproject.toml requirements/build.in requirements/torch.in
uv pip compile "${quiet[@]}" --no-deps -o "$work/torch.txt" requirements/torch.in
python3 - "$work/all.txt" "$work/torch.txt" > "$work/lock.txt" <<'PY'
import re, sys
every, public = (open(name).read() for name in sys.argv[1:])
blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", every)
hashes = lambda text: set(re.findall(r"--hash=(sha256:[0-9a-f]{64})", text))
print("# Versions and hashes of everything that `make env` installs, for Python 3.11 on Linux.")
print("# Made by requirements/relock.sh; the bounds are in pyproject.toml.")
for block in blocks:
    if block.startswith("torch=="):
        both = sorted(hashes(block) | hashes(public))
        block = "torch==2.13.0 \\\n" + " \\\n".join(f"    --hash={h}" for h in both) + "\n"
    print(block, end="")
PY
if grep -qE '^(nvidia|cuda|triton)|://|find-links|index-url' "$work/lock.txt"; then
  echo "the lock holds CUDA packages or an address; not written" >&2; exit 1
fi
mv "$work/lock.txt" requirements/lock.txt
echo "requirements/lock.txt: $(grep -c '==' requirements/lock.txt) packages"

"""What podman is told for a slot, and what it is asked about others, without podman."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

from components.contracts.errors import ParamsError, SandboxError
from components.sandbox import seccomp
from components.sandbox.x11.drivers import cgroups, choose, containers, layout, oci, podman, podman_options
from components.sandbox.x11.drivers.base import Limits, Screen

FLAGS = {"--rm", "--no-hosts", "--unsetenv-all", "--no-healthcheck", "--read-only"}
LIMITS = Limits(processes=100)


def told(bundle: Path = Path("/b/slot"), root: Path = Path("/")) -> tuple[dict[str, list[str]], list[str]]:
    """(options by name, root and command) of a slot's `podman run`."""
    words = podman_options.words(bundle, root, LIMITS, 7, "cowork.x11=1", ["/bin/true", "--rm"])
    options: dict[str, list[str]] = defaultdict(list)
    while words[0] != "--rootfs":
        name, given, value = words.pop(0).partition("=")
        assert name.startswith("--"), name
        options[name].append(value if given or name in FLAGS else words.pop(0))
    return options, words


def test_podman_is_told_the_container_that_runc_gets() -> None:
    options, _ = told()
    config = oci.config(Path("/"), LIMITS, 7, ["/bin/true"])
    (mapping,) = config["linux"]["uidMappings"]
    span = f"{mapping['containerID']}:{mapping['hostID']}:{mapping['size']}"
    assert options["--uidmap"] == options["--gidmap"] == [span]
    assert options["--cap-drop"] == ["all"] and options["--cap-add"] == config["process"]["capabilities"]["bounding"]
    limits = {entry["type"].removeprefix("RLIMIT_").lower(): entry["hard"] for entry in config["process"]["rlimits"]}
    assert options["--ulimit"] == [f"{name}={value}:{value}" for name, value in limits.items()]
    assert options["--pids-limit"] == [str(config["linux"]["resources"]["pids"]["limit"])]
    assert options["--memory"] == [f"{config['linux']['resources']['memory']['limit']}b"]
    assert options["--hostname"] == [config["hostname"]]
    hidden = dict(entry.split("=", 1) for entry in options["--security-opt"] if "=" in entry)["mask"].split(":")
    assert set(config["linux"]["maskedPaths"]) < set(hidden)
    mounts = {entry["destination"]: entry for entry in config["mounts"]}
    binds = {place: entry["source"] for place, entry in mounts.items() if entry["type"] == "bind"}
    assert {place: source for source, place, _ in (entry.split(":") for entry in options["--volume"])} == binds
    sizes = {
        place: {option for option in entry["options"] if option.startswith(("size=", "mode="))}
        for place, entry in mounts.items() if entry["type"] == "tmpfs" and place != "/dev"
    }  # fmt: skip
    places = dict(entry.split(":") for entry in options["--tmpfs"])
    assert {
        place: {o for o in text.split(",") if o.startswith(("size=", "mode="))} for place, text in places.items()
    } == sizes


def test_podman_is_told_nothing_that_gives_the_host_away() -> None:
    options, command = told()
    assert options["--network"] == ["none"] and options["--ipc"] == ["none"]
    assert options["--pid"] == options["--uts"] == options["--cgroupns"] == ["private"]
    assert "--read-only" in options and options["--read-only-tmpfs"] == ["false"]
    assert {"no-new-privileges", "seccomp=/b/slot/seccomp.json"} < set(options["--security-opt"])
    assert not {"--privileged", "--device", "--env", "--env-host", "--mount", "--volumes-from", "--init"} & set(options)
    assert options["--http-proxy"] == ["false"] and "--no-hosts" in options
    assert all({"ro", "nosuid", "nodev"} <= set(entry.split(":")[2].split(",")) for entry in options["--volume"])
    assert all("size=" in entry and "notmpcopyup" in entry for entry in options["--tmpfs"])
    # Whatever podman adds to the environment, the first program starts the next with ours alone.
    made_up = [f"{name}={value}" for name, value in sorted(layout.environment().items())]
    assert command == ["--rootfs", "/b/slot/rootfs", "/usr/bin/env", "-i", *made_up, "/bin/true", "--rm"]


def test_an_image_is_podmans_alone_and_never_a_folder_too() -> None:
    for name, root in (("runc", None), ("bwrap-host", None), ("podman", Path("/"))):
        with pytest.raises(ParamsError, match="only podman takes the name of an image"):
            choose.choose_driver(name, root, "an-image")


def test_what_podman_lacks_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(containers, "program", lambda name: "/usr/bin/podman" if name == "podman" else name)
    assert podman.Podman(tmp_path / "a").problem() == "not installed: runc"
    monkeypatch.setattr(containers, "program", lambda name: f"/usr/bin/{name}")
    assert podman.Podman(tmp_path / "b").problem().startswith("not installed: python3, ")
    assert "colon" in podman.Podman(tmp_path / "c:d").problem()
    with pytest.raises(SandboxError, match="not installed: python3") as caught:
        podman.Podman(tmp_path / "b").start(Screen(), LIMITS)
    assert "apt install podman runc" in str(caught.value)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "only root may" in podman.Podman(tmp_path / "e").problem()


class Recorded:
    """Stands for podman: records what it is called with, and answers as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, output: str = "", code: int = 0) -> None:
        self._log = folder / "calls"
        script = folder / "podman"
        script.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> {self._log}\nprintf '{output}'\nexit {code}\n")
        script.chmod(0o755)
        monkeypatch.setattr(containers, "program", lambda name: str(script))

    def calls(self) -> list[str]:
        prefix = " ".join(podman_options.GLOBAL) + " "
        return [line.removeprefix(prefix) for line in self._log.read_text().splitlines()]


def test_what_is_asked_and_removed_is_ours_and_abandoned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone, living = f"{cgroups.PREFIX}{os.getpid()}-1-0123", cgroups.new_name()
    (tmp_path / gone).mkdir()
    recorded = Recorded(monkeypatch, tmp_path, output=f"{gone} 1a\\n{living} 2b\\nother 3c\\n")
    podman.sweep()
    assert recorded.calls() == [
        f"ps --all --no-trunc --filter label={podman.label()} --format {{{{.Names}}}} {{{{.ID}}}}",
        f"rm --force --ignore --time 0 {gone}",
        "delete --force 1a",  # of runc
    ]
    assert not (tmp_path / gone).exists()


def test_what_podman_does_not_remove_at_once_it_is_asked_again_and_the_runtime_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "slot"
    bundle.mkdir()
    (bundle / "cid").write_text("1a")
    recorded = Recorded(monkeypatch, tmp_path, code=2)
    podman.delete(bundle)
    assert recorded.calls() == [*["rm --force --ignore --time 0 slot"] * 2, "delete --force 1a"]
    assert not bundle.exists()


def test_a_podman_that_fails_is_an_error_with_its_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Recorded(monkeypatch, tmp_path, code=125)
    with pytest.raises(SandboxError, match="lists no containers"):
        podman.known()
    with pytest.raises(SandboxError, match="has no image nothing"):
        podman.system_of(Path("/"), "nothing")
    monkeypatch.setattr(containers, "program", lambda name: "/nowhere/podman")
    with pytest.raises(SandboxError, match="ps did not end well"):
        podman.known()


def test_the_folder_of_a_container_holds_the_filter_and_no_file_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bundle = podman.make_bundle(Path("/"))
    assert json.loads((bundle / "seccomp.json").read_text()) == seccomp.oci_profile()
    assert cgroups.is_abandoned(bundle.name) is False
    assert [path for path in (bundle / "rootfs").rglob("*") if path.is_file() and not path.is_symlink()] == []
    assert (bundle / "rootfs" / "sys").is_dir()

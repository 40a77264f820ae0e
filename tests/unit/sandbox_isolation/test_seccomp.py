"""The filter on a real process: each denied call is made, as root where the tests run as root."""

from __future__ import annotations

import ctypes
import errno
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.sandbox import seccomp

ROOT = Path(__file__).resolve().parents[3]
needs_machine = pytest.mark.skipif(bool(seccomp.problem()), reason=seccomp.problem())

_CALLS = """
import ctypes, errno, json, os, sys
from components.sandbox import seccomp
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(arg) for arg in (*args, *[0] * (5 - len(args)))))
    if number == CLONE and done == 0:
        os._exit(0)
    return [done, errno.errorcode.get(ctypes.get_errno(), "")]
column = seccomp._machine("")[0]
CLONE = seccomp._CLONE[column]
if sys.argv[1] == "filtered":
    seccomp.confine_self()
wanted = json.loads(sys.argv[2])
print(json.dumps([call(*one) for one in wanted]))
"""


def tried(calls: list[tuple[int, ...]], *, filtered: bool = True) -> list[Any]:
    """[result, name of the error] of each system call, all arguments not given being 0."""
    done = subprocess.run(
        [sys.executable, "-c", _CALLS, "filtered" if filtered else "free", json.dumps(calls)], cwd=ROOT, check=True,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    return list(json.loads(done.stdout))


def number(name: str) -> int:
    column = 0 if platform.machine() == "x86_64" else 1
    return seccomp.DENIED[name][column]


@needs_machine
def test_every_denied_call_is_refused_with_eperm() -> None:
    names = [name for name in seccomp.DENIED if number(name) >= 0]
    got = dict(zip(names, tried([(number(name),) for name in names]), strict=True))
    assert {name: outcome for name, outcome in got.items() if outcome != [-1, "EPERM"]} == {}


@needs_machine
def test_without_the_filter_the_same_calls_reach_the_kernel() -> None:
    got = tried([(number(name), 0) for name in ("unshare", "keyctl", "setns")], filtered=False)
    assert got[0] == [0, ""]  # unshare(0) does nothing, and does it well
    assert [-1, "EPERM"] not in got


@needs_machine
def test_namespaces_cannot_be_made_by_clone_but_processes_can() -> None:
    column = 0 if platform.machine() == "x86_64" else 1
    clone, clone3, sigchld = seccomp._CLONE[column], seccomp._CLONE3[column], 17
    flags = [1 << bit for bit in range(32) if (1 << bit) & seccomp.NEW_NAMESPACES]
    assert len(flags) == 7
    got = tried([*((clone, flag | sigchld) for flag in flags), (clone3,), (clone, sigchld)])
    assert got[:7] == [[-1, "EPERM"]] * 7
    assert got[7] == [-1, "ENOSYS"]
    assert got[8][0] > 0


@needs_machine
def test_only_sockets_that_a_network_namespace_holds_exist() -> None:
    column = 0 if platform.machine() == "x86_64" else 1
    stream, datagram = 1, 2
    socket, pair = (numbers[column] for numbers in seccomp._SOCKETS)
    vsock, alg, packet, bluetooth = 40, 38, 17, 31
    refused = [(socket, family, stream) for family in (0, vsock, alg, packet, bluetooth, 1 << 20)]
    got = tried([*refused, (pair, vsock, stream), *((socket, f, datagram) for f in seccomp.FAMILIES.values())])
    assert got[:7] == [[-1, "EAFNOSUPPORT"]] * 7
    assert [outcome[0] >= 0 for outcome in got[7:]] == [True] * 4


@needs_machine
def test_nothing_can_be_typed_into_a_terminal() -> None:
    column = 0 if platform.machine() == "x86_64" else 1
    ioctl, not_a_terminal = seccomp._IOCTL[column], 0
    high_bits = 1 << 32  # the kernel looks at the low half alone, and so must the filter
    got = tried([(ioctl, not_a_terminal, number) for number in (0x5412, 0x541C, 0x5412 | high_bits, 0x5401)])
    assert got[:3] == [[-1, "EPERM"]] * 3 and got[3][1] != "EPERM"


@needs_machine
def test_calls_that_the_table_cannot_know_do_not_exist() -> None:
    x32 = 0x4000_0000
    assert tried([(463,), (600,), (x32 | 1,), (39,)])[:3] == [[-1, "ENOSYS"]] * 3


@needs_machine
def test_the_filter_outlives_exec_and_is_the_childrens_too() -> None:
    code = (
        "from components.sandbox import seccomp; import os; seccomp.confine_self(); "
        "os.execv('/bin/sh', ['sh', '-c', 'sh -c \"unshare -r true\"'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "Operation not permitted" in done.stderr


def test_the_numbers_are_those_of_libseccomp() -> None:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not here")
    newer = {"statmount", "listmount"}  # than the library
    for column, arch in enumerate((0xC000_003E, 0xC000_00B7)):
        for name, numbers in {**seccomp.DENIED, "clone": seccomp._CLONE, "clone3": seccomp._CLONE3,
                              "socket": seccomp._SOCKETS[0], "socketpair": seccomp._SOCKETS[1],
                              "ioctl": seccomp._IOCTL}.items():  # fmt: skip
            found = library.seccomp_syscall_resolve_name_arch(arch, name.encode())
            if name not in newer or found != -1:
                assert max(found, -1) == numbers[column], (name, hex(arch))


def test_both_forms_deny_the_same_and_every_jump_lands_inside() -> None:
    profile = seccomp.oci_profile()
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    first = profile["syscalls"][0]
    assert first == {"names": sorted(seccomp.DENIED), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}
    refused = [rule["args"][0] for rule in profile["syscalls"] if rule["names"] == ["socket"]]
    numbers = {test["value"] for test in refused if test["op"] == "SCMP_CMP_EQ"}
    assert numbers | set(seccomp.FAMILIES.values()) == set(range(17)) and not numbers & set(seccomp.FAMILIES.values())
    for machine in ("x86_64", "aarch64"):
        code = seccomp.program(machine)
        steps = len(code) // 8
        for place in range(steps):
            yes, no = code[8 * place + 2], code[8 * place + 3]
            assert place + 1 + max(yes, no) < steps or code[8 * place] == 0x06


def test_an_unknown_machine_is_told_not_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert "riscv64" in seccomp.problem()
    with pytest.raises(Exception, match="riscv64"):
        seccomp.program()

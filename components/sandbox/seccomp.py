"""A filter of system calls: what no desktop application needs and what kernel flaws are commonly reached by.

One table, two forms: a classic BPF program (seccomp(2)) for bubblewrap's `--seccomp` and for a process that confines
itself, and the JSON of the OCI runtime specification for runc and podman. All else is allowed; applications get an
ordinary error, never a signal, so that they fall back as on a kernel without the call.

The numbers are those of the kernel's own tables for the two machines that images are built for. A call with a number
that the table's authors could not know (`_LAST`) does not exist, as far as what runs behind the filter can tell.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from typing import Any

from components.contracts.errors import SandboxError

_LAST = 462
"""mseal (Linux 6.10). Both machines number all calls since 424 alike."""

# name: (x86_64, aarch64); -1 where the machine has no such call.
DENIED: dict[str, tuple[int, int]] = {
    # mounts and roots
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsmount": (432, 432), "fsconfig": (431, 431), "fspick": (433, 433),
    "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
    # other processes' memory, descriptors and secrets
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "move_pages": (279, 239), "migrate_pages": (256, 238),
    # large attack surfaces of the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "modify_ldt": (154, -1),
    # namespaces, and files by other ways than their names
    "setns": (308, 268), "unshare": (272, 97), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    # the machine itself
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "vhangup": (153, 58), "iopl": (172, -1), "ioperm": (173, -1), "uselib": (134, -1),
    "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
}  # fmt: skip
"""Answered with EPERM, whatever the arguments."""

_CLONE, _CLONE3, _SOCKETS, _IOCTL = (56, 220), (435, 435), ((41, 198), (53, 199)), (16, 29)
NEW_NAMESPACES = 0x7E02_0000
"""CLONE_NEW* of linux/sched.h, but NEWTIME, which clone(2) cannot take."""
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
"""Kinds of sockets that exist. Above all not AF_VSOCK: no network namespace holds it, the hypervisor hears."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Typing into the terminal of whoever started it."""

_MACHINES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}
"""machine: (column of the table, AUDIT_ARCH_* of linux/audit.h)."""

_LD, _JEQ, _JGT, _JSET, _RET = 0x20, 0x15, 0x25, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _ERRNO = 0x7FFF_0000, 0x0005_0000
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
"""Offsets in struct seccomp_data; the low half of an argument comes first on both machines."""


def problem() -> str:
    """Why there is no filter for this machine; "" when there is one."""
    machine = platform.machine()
    return "" if machine in _MACHINES else f"there is no system-call filter for {machine} (known: x86_64, aarch64)"


def program(machine: str = "") -> bytes:
    """The filter as an array of `struct sock_filter`. Raises `SandboxError` for an unknown machine."""
    column, arch = _machine(machine)
    code: list[bytes] = []

    def op(opcode: int, value: int, yes: int = 0, no: int = 0) -> None:
        code.append(struct.pack("=HBBI", opcode, yes, no, value))

    def refuse(number: int) -> None:
        op(_RET, _ERRNO | number)

    # Another machine's calls (32 bits) have other numbers: none of them exists.
    op(_LD, _ARCH)
    op(_JEQ, arch, 1, 0)
    refuse(errno.ENOSYS)
    op(_LD, _NR)
    op(_JGT, _LAST, 0, 1)  # newer ones, and those of x32
    refuse(errno.ENOSYS)
    op(_JEQ, _CLONE3[column], 0, 1)  # its flags lie in memory, where no filter looks; the C library falls back to clone
    refuse(errno.ENOSYS)
    for numbers in DENIED.values():
        if numbers[column] >= 0:
            op(_JEQ, numbers[column], 0, 1)
            refuse(errno.EPERM)
    op(_JEQ, _CLONE[column], 0, 4)
    op(_LD, _ARG0)
    op(_JSET, NEW_NAMESPACES, 0, 1)
    refuse(errno.EPERM)
    op(_RET, _ALLOW)
    for socket in _SOCKETS:
        op(_JEQ, socket[column], 0, len(FAMILIES) + 3)
        op(_LD, _ARG0)
        for place, family in enumerate(FAMILIES.values(), 1):
            op(_JEQ, family, len(FAMILIES) - place + 1, 0)
        refuse(errno.EAFNOSUPPORT)
        op(_RET, _ALLOW)
    op(_JEQ, _IOCTL[column], 0, 4)
    op(_LD, _ARG1)
    op(_JEQ, _TIOCSTI, 1, 0)
    op(_JEQ, _TIOCLINUX, 0, 1)
    refuse(errno.EPERM)
    op(_RET, _ALLOW)
    return b"".join(code)


def oci_profile() -> dict[str, Any]:
    """The same as `linux.seccomp` of an OCI bundle, which podman's `--security-opt seccomp=FILE` takes too.

    The runtimes have no rule for numbers that nobody knows yet: those are allowed here.
    """
    low = 0xFFFF_FFFF

    def rule(names: list[str], number: int, *args: dict[str, Any]) -> dict[str, Any]:
        entry: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number}
        return {**entry, "args": list(args)} if args else entry

    rules = [
        rule(sorted(DENIED), errno.EPERM),
        rule(["clone3"], errno.ENOSYS),
        *(
            rule(["clone"], errno.EPERM, {"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"})
            for bit in (1 << place for place in range(32))
            if bit & NEW_NAMESPACES
        ),
        *(
            rule(["ioctl"], errno.EPERM, {"index": 1, "value": low, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"})
            for value in (_TIOCSTI, _TIOCLINUX)
        ),
    ]
    # Between rules of one call the runtimes say "or", so that "none of these" is written as the ranges between them.
    edges = sorted(FAMILIES.values())
    for name in ("socket", "socketpair"):
        for family in (*(n for n in range(edges[-1]) if n not in edges), None):
            test = {"index": 0, "value": family, "op": "SCMP_CMP_EQ"}
            if family is None:
                test = {"index": 0, "value": edges[-1], "op": "SCMP_CMP_GT"}
            rules.append(rule([name], errno.EAFNOSUPPORT, test))
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": rules,
    }


def confine_self() -> None:
    """Puts the filter on the calling thread and what it starts, for good. Raises `SandboxError`."""

    class Filter(ctypes.Structure):
        _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    code = program()
    loaded = Filter(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privs, set_seccomp, mode_filter = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
    if libc.prctl(set_no_new_privs, 1, 0, 0, 0) or libc.prctl(set_seccomp, mode_filter, ctypes.byref(loaded), 0, 0):
        raise SandboxError(f"the kernel refused the system-call filter: errno {ctypes.get_errno()}", where="seccomp",
                           remedy="a kernel with CONFIG_SECCOMP_FILTER is needed")  # fmt: skip


def _machine(machine: str) -> tuple[int, int]:
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        raise SandboxError(problem() or f"no filter for {machine}", where="seccomp", remedy="use a known machine")
    return found

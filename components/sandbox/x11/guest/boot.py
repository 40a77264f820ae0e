"""First process of a container: unpacks what the host gives, then keeps the agent, as root of the container.

Its text is given to the system's python, with three numbers: descriptors of the agent's socket, of a tar with
everything that is no package, and of the socket for those who watch. It stays as process 1 and collects what has lost
its parent: the table of processes would fill with the dead otherwise.
"""

from __future__ import annotations

import os
import sys
import tarfile

AGENT = "/opt/guest"


def unpack(fd: int) -> None:
    """All members at their absolute places, owners and modes as in the tar."""
    with os.fdopen(fd, "rb") as file, tarfile.open(fileobj=file) as tar:
        for member in tar:
            tar.extract(member, "/", numeric_owner=True)


def keep(child: int) -> int:
    """Waits for `child`, collecting all others meanwhile. Its exit status, 0..255."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(argv: list[str]) -> int:
    sock, files, eye = (int(number) for number in argv[1:4])
    os.set_inheritable(files, False)
    child = os.fork()
    if child:
        os.close(sock)
        os.close(files)
        os.close(eye)
        return keep(child)
    unpack(files)
    sys.path.insert(0, AGENT)
    from components.sandbox.x11.guest.agent import main as agent

    return agent(["agent", str(sock), str(eye)])


if __name__ == "__main__":
    sys.exit(main(sys.argv))

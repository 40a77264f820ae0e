"""`cowork desktop serve`: the slot host of a machine. Nothing heavy is imported before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_frame import guarded

EPILOG = """Clients use components.sandbox.pool.client.PooledDesktop(URL, TOKEN, BACKEND): a slot like a local one. A
client that dies loses its lease after its ttl; when this service dies every sandbox dies with it, and the next start with
the same --state takes back what was left. Send SIGTERM (or Ctrl-C) to stop. GET /status and /metrics tell how it goes."""

_SETUPS = {
    "minidesk": {"prepare": "components.forge.preparers:prepare", "grade": "components.forge.verifier:grade"},
    "x11": {},
}  # fmt: skip


def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="where to listen; beyond loopback only with --token-file")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one; the address is printed")] = 8765,
    backend: Annotated[list[str] | None, typer.Option("--backend", "-b", help="minidesk or x11; repeatable")] = None,
    slots: Annotated[int, typer.Option("--slots", min=1, max=4096, help="leases at once; more clients queue")] = 4,
    standby: Annotated[int, typer.Option("--standby", min=0, max=4096, help="sandboxes kept ready, for each backend")] = 1,
    starts: Annotated[int, typer.Option("--starts", min=1, help="application starts at once: what a processor is short of")] = 2,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="the bearer token, in a file of mode 0600; else COWORK_POOL_TOKEN; else one is made in the state folder")] = None,
    state: Annotated[Path, typer.Option("--state", help="folder of the lease table; one for each service")] = Path(".cowork/slot-host"),
    name: Annotated[str, typer.Option("--name", help="of this host, in tables and labels; default: the machine's")] = "",
    prepare: Annotated[str, typer.Option("--prepare", metavar="MODULE:FUNCTION", help="sets a task up")] = "",
    finish: Annotated[str, typer.Option("--finish", metavar="MODULE:FUNCTION", help="runs before grading (x11)")] = "",
    grade: Annotated[str, typer.Option("--grade", metavar="MODULE:FUNCTION", help="the verifier")] = "",
    setup_s: Annotated[float, typer.Option("--setup-seconds", min=1, help="longest setup of a task")] = 120.0,
    episode_s: Annotated[float, typer.Option("--episode-seconds", min=1, help="longest episode")] = 1800.0,
    grading_s: Annotated[float, typer.Option("--grading-seconds", min=1, help="longest grading")] = 120.0,
) -> None:  # fmt: skip
    """Lend this machine's desktops over HTTP: each lease gets a fresh sandbox for every task, and nothing outlives it.

    Example: cowork desktop serve --backend x11 --slots 16 --standby 4 --token-file pool.token --host 0.0.0.0
    """

    def work() -> int:
        import socket

        from components.sandbox.pool.models import Deadlines
        from components.sandbox.pool.serve import build_host, listen, local_backend, run_server, token_of

        names = backend or ["minidesk"]
        given = {key: value for key, value in (("prepare", prepare), ("finish", finish), ("grade", grade)) if value}
        backends = {name_: local_backend(name_, {**_SETUPS.get(name_, {}), **given}) for name_ in names}
        token, where = token_of(state, host, token_file)
        with listen(host, port) as sock:
            slot_host = build_host(
                state, name or socket.gethostname(), backends, slots=slots, standby=dict.fromkeys(names, standby),
                starts=starts, deadlines=Deadlines(setup=setup_s, episode=episode_s, grading=grading_s),
            )  # fmt: skip
            told = f"token in {where}" if where else "token from COWORK_POOL_TOKEN"

            def ready(address: str) -> None:
                print(
                    f"slot host {slot_host.config.host}: {address} ({', '.join(names)}; {slots} slots; {told})",
                    flush=True,
                )

            run_server(slot_host, token, sock, ready)
        return 0

    guarded(work)

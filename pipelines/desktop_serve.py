"""`cowork desktop serve`: the slot host of a machine. Nothing heavy is imported before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_frame import guarded

EPILOG = """Clients: components.sandbox.pool.client.PooledDesktop(URL, TOKEN, BACKEND), a slot like a local one. A
client that dies loses its lease after its ttl. When this service dies, every sandbox of this machine dies with it, and
the next start with the same --state takes back what was left elsewhere. SIGTERM or Ctrl-C ends it and its sandboxes.
GET /status and /metrics (with the token) tell how it goes. Exit codes: 0 stopped; 2 bad options; 3 it cannot start."""

_SETUPS = {
    "minidesk": {"prepare": "components.forge.preparers:prepare", "grade": "components.forge.verifier:grade"},
    "x11": {
        "prepare": "components.forge.realapps.scene:prepare", "finish": "components.forge.realapps.scene:finish",
        "grade": "components.forge.realapps.scene:grade",
    },
}  # fmt: skip
"""Setup and verifier of each backend, unless others are named. The slots import them, not this process."""

_Host = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="where to listen; beyond loopback only with --token-file")
]
_Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one; the address is printed")]
_Backend = Annotated[
    list[str] | None,
    typer.Option(
        "--backend", "-b", metavar="NAME", help="minidesk, x11, claims:WARMPOOL or statefulset:SELECTOR; repeatable"
    ),
]
_Slots = Annotated[int, typer.Option("--slots", min=1, max=4096, help="leases at once; further clients queue")]
_Standby = Annotated[
    int, typer.Option("--standby", min=0, max=4096, help="sandboxes kept ready beside them, for each backend")
]
_Starts = Annotated[
    int, typer.Option("--starts", min=1, help="application starts at once: a processor is short of these, not of slots")
]
_TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="the bearer token, in a file of mode 0600; else COWORK_POOL_TOKEN; else one is made in --state",
    ),
]
_State = Annotated[Path, typer.Option("--state", help="folder of the lease table and the slots' files; one a service")]
_Name = Annotated[str, typer.Option("--name", help="of this host, in tables and labels; default: the machine's")]
_Namespace = Annotated[str, typer.Option("--namespace", help="of claims and pods")]
_Prepare = Annotated[str, typer.Option("--prepare", metavar="MODULE:FUNCTION", help="sets a task up")]
_Finish = Annotated[str, typer.Option("--finish", metavar="MODULE:FUNCTION", help="runs before grading (x11)")]
_Grade = Annotated[str, typer.Option("--grade", metavar="MODULE:FUNCTION", help="the verifier")]
_Setup = Annotated[float, typer.Option("--setup-seconds", min=1, help="longest setup of a task")]
_Episode = Annotated[float, typer.Option("--episode-seconds", min=1, help="longest episode")]
_Grading = Annotated[float, typer.Option("--grading-seconds", min=1, help="longest grading")]


def serve(
    host: _Host = "127.0.0.1",
    port: _Port = 8765,
    backend: _Backend = None,
    slots: _Slots = 4,
    standby: _Standby = 1,
    starts: _Starts = 2,
    token_file: _TokenFile = None,
    state: _State = Path(".cowork/slot-host"),
    name: _Name = "",
    namespace: _Namespace = "cowork-sandboxes",
    prepare: _Prepare = "",
    finish: _Finish = "",
    grade: _Grade = "",
    setup_s: _Setup = 120.0,
    episode_s: _Episode = 1800.0,
    grading_s: _Grading = 120.0,
) -> None:
    """Lend this machine's desktops over HTTP: each lease gets a fresh sandbox for every task, and nothing outlives it.

    Example: cowork desktop serve --backend x11 --slots 16 --standby 4 --token-file pool.token --host 0.0.0.0
    """

    def work() -> int:
        import socket

        from components.sandbox.pool.models import Deadlines
        from components.sandbox.pool.serve import build_host, listen, owner_id, parse_backend, run_server, token_of

        token, where = token_of(state, host, token_file)
        given = {key: value for key, value in (("prepare", prepare), ("finish", finish), ("grade", grade)) if value}
        own = name or socket.gethostname()
        names, owner = backend or ["minidesk"], owner_id(state, own)
        backends = dict(parse_backend(text, {**_SETUPS.get(text, {}), **given}, owner, namespace) for text in names)
        with listen(host, port) as sock:
            slot_host = build_host(
                state, own, backends, slots=slots, standby=dict.fromkeys(backends, standby), starts=starts,
                deadlines=Deadlines(setup=setup_s, episode=episode_s, grading=grading_s),
            )  # fmt: skip
            told = f"token in {where}" if where else "token from COWORK_POOL_TOKEN"

            def ready(address: str) -> None:
                print(f"slot host {own}: {address} ({', '.join(backends)}; {slots} slots; {told})", flush=True)

            run_server(slot_host, token, sock, ready)
        return 0

    guarded(work)

"""A virtual cluster on one Linux machine: network namespaces joined by links of a stated rate.

Each "host" is a network namespace with one end of a veth pair; the other ends are ports of a
bridge. Both ends are shaped (tc tbf), one for what the host sends and one for what it receives:
a full-duplex link. Nothing leads outside, and the machine's own network is left alone.
"""

import contextlib
import fcntl
import ipaddress
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
NETWORK = ipaddress.IPv4Network("198.18.0.0/15")  # set aside for benchmarks of networks, RFC 2544
MTU = 9000  # bytes; jumbo frames, as clusters have: headers take 1 % of the rate, not 6
BURST = "20kb"  # what tbf lets pass at once: two frames, or short messages would beat the wire
QUEUE = "64mb"  # more than TCP windows fill: links with flow control drop nothing
PREFIX = "xg"  # of everything this makes: xg<pid>b, xg<pid>h0, ...
LOCK = Path(tempfile.gettempdir()) / "expograph-testbed.lock"


class Unavailable(RuntimeError):
    """This machine cannot carry a testbed; the message says what is missing, in one line."""


def missing() -> list[str]:
    """What a testbed needs and this machine lacks, in words; makes nothing."""
    lacks = []
    if not sys.platform.startswith("linux"):
        return ["Linux"]
    if os.geteuid() != 0:
        lacks.append("root (run it with sudo)")
    lacks += [f"{tool} (install iproute2)" for tool in ("ip", "tc") if not _found(tool)]
    lacks += [] if _found("unshare") else ["unshare (install util-linux)"]
    return lacks


def bytes_per_second(rate: str) -> float:
    """ "1gbit" -> 1.25e8.

    Raises:
        ValueError: for anything but a number followed by kbit, mbit or gbit.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", rate)
    if not match or float(match[1]) == 0:
        raise ValueError(f"rate {rate!r}: expected a number with kbit, mbit or gbit, as 1gbit")
    return float(match[1]) * UNITS[match[2]] / 8


class Testbed:
    """Context manager: the hosts exist inside it, and nothing of them afterwards.

    Attributes:
        addresses: IPv4 address of each host.
        rate_bytes: bytes a second that a link carries in each direction.
    """

    def __init__(self, hosts: int = 4, rate: str = "1gbit") -> None:
        self.rate, self.rate_bytes = rate, bytes_per_second(rate)
        self.names = [f"{PREFIX}{os.getpid()}h{i}" for i in range(hosts)]
        self.bridge = f"{PREFIX}{os.getpid()}b"
        self.addresses: list[str] = []
        self._running: list[subprocess.Popen[bytes]] = []
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> "Testbed":
        """Raises Unavailable if the machine lacks something."""
        if lacks := missing():
            raise Unavailable(f"a testbed needs {', '.join(lacks)}")
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._undo.callback(signal.signal, number, signal.signal(number, _leave))
        self.folder = Path(self._undo.enter_context(tempfile.TemporaryDirectory()))
        try:
            # as root in a folder of everybody's: no link is followed, nothing is cut
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(LOCK, flags, 0o600), "r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # two at once would choose the same addresses
                _remove_leftovers()
                self._build()
            self._check()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running:
            _kill(process)
        _remove(self.names, self.bridge)
        self._undo.close()

    def enter(self, host: int, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` on a host, whose name is h0, h1, ..."""
        return [str(self.folder / "enter"), str(host), *command]

    def mpirun(
        self,
        command: Sequence[str],
        ranks: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> list[str]:
        """The command line that runs `command` with one rank a host, started from host 0.

        Args:
            ranks: how many of the hosts take part; all by default.
            environment: variables set for the ranks.
        """
        bin_folder = Path(sys.executable).parent
        mpirun = shutil.which("mpirun", path=f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
        if mpirun is None:
            raise Unavailable("a testbed job needs mpirun (make cluster-env)")
        ranks = ranks or len(self.names)
        variables = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", **(environment or {})}
        settings = {
            "plm_rsh_agent": str(self.folder / "agent"),
            "pml": "ob1",
            "btl": "tcp,self",
            "btl_tcp_if_include": "eth0",
            "oob_tcp_if_include": "eth0",
            "mpi_yield_when_idle": "1",  # all hosts share this machine's cores
        }
        return self.enter(
            0,
            [
                *(mpirun, "--allow-run-as-root", "--prefix", str(Path(mpirun).parents[1])),
                *("-np", str(ranks), "-H", ",".join(f"{a}:1" for a in self.addresses[:ranks])),
                *("--bind-to", "none"),
                *(word for key, value in settings.items() for word in ("--mca", key, value)),
                *(word for key, value in variables.items() for word in ("-x", f"{key}={value}")),
                *command,
            ],
        )

    def run(
        self,
        command: Sequence[str],
        ranks: int | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`mpirun` and wait for it; whatever of it is left after `timeout` seconds is killed.

        Raises:
            subprocess.TimeoutExpired
        """
        process = subprocess.Popen(self.mpirun(command, ranks, environment), start_new_session=True)
        self._running.append(process)
        try:
            return subprocess.CompletedProcess(process.args, process.wait(timeout))
        finally:
            _kill(process)
            for name in self.names:
                _kill_all(name)
            self._running.remove(process)

    def _build(self) -> None:
        prefix = _free_network()
        self.addresses = [str(prefix[i + 1]) for i in range(len(self.names))]
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("link", "set", self.bridge, "mtu", str(MTU), "up")
        for name, address in zip(self.names, self.addresses, strict=True):
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "mtu", str(MTU), "master", self.bridge, "up")
            for words in (
                ("link", "set", "lo", "up"),
                ("link", "set", "eth0", "mtu", str(MTU), "up"),
                ("address", "add", f"{address}/{prefix.prefixlen}", "dev", "eth0"),
            ):
                _ip("-n", name, *words)
            shape = ("root", "tbf", "rate", self.rate, "burst", BURST, "limit", QUEUE)
            _tc("qdisc", "add", "dev", name, *shape)
            _tc("-n", name, "qdisc", "add", "dev", "eth0", *shape)
        for host in range(len(self.names)):
            (self.folder / f"h{host}").mkdir()
        # a name and a folder for temporary files of its own: Open MPI's daemons would share theirs
        self._script(
            "enter",
            "host=$1; shift",
            f"export TMPDIR='{self.folder}'/h$host",
            f"exec {_tool('ip')} netns exec {PREFIX}{os.getpid()}h$host unshare --uts sh -c "
            """'echo "$0" > /proc/sys/kernel/hostname; exec "$@"' "h$host" "$@" """,
        )
        cases = [f"    {address}) host={i} ;;" for i, address in enumerate(self.addresses)]
        self._script(  # stands in for ssh: agent ADDRESS COMMAND...
            "agent",
            *("case $1 in", *cases, '    *) echo "no host $1" >&2; exit 1 ;;', "esac", "shift"),
            f"""exec '{self.folder}'/enter "$host" /bin/sh -c "$*" """,
        )

    def _script(self, name: str, *lines: str) -> None:
        path = self.folder / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)

    def _check(self) -> None:
        """A connection between the first and the last host."""
        if len(self.names) < 2:
            return
        listener = "import socket; s = socket.create_server(('{}', 5001)); s.accept()"
        caller = "import socket; socket.create_connection(('{}', 5001), timeout=5)"
        python = [sys.executable, "-S", "-c"]
        server = subprocess.Popen(self.enter(0, [*python, listener.format(self.addresses[0])]))
        try:
            for _ in range(20):
                words = [*python, caller.format(self.addresses[0])]
                done = subprocess.run(self.enter(len(self.names) - 1, words), capture_output=True)
                if done.returncode == 0:
                    return
                time.sleep(0.1)
        finally:
            server.kill()
            server.wait()
        raise Unavailable(
            "the testbed's hosts cannot reach each other: a firewall that looks into bridges? "
            "(sysctl net.bridge.bridge-nf-call-iptables=0)"
        )


def _tool(name: str) -> str:
    """Where a tool is; its bare name, which is then not found, if it is nowhere."""
    return _found(name) or name


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _ip(*words: str) -> str:
    return _run(_tool("ip"), *words)


def _tc(*words: str) -> str:
    return _run(_tool("tc"), *words)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"this kernel refused `{' '.join(words)}`: {done.stderr.strip()}")
    return done.stdout


def _free_network() -> ipaddress.IPv4Network:
    """A /24 of NETWORK that no interface and no other testbed uses."""
    used = _ip("-4", "-o", "address")
    for name in _namespaces():
        with contextlib.suppress(Unavailable):  # one that is just being removed
            used += _ip("-n", name, "-4", "-o", "address")
    taken = {match for match in re.findall(r"inet (\d+\.\d+\.\d+)\.", used)}
    for network in NETWORK.subnets(new_prefix=24):
        if str(network[0]).rsplit(".", 1)[0] not in taken:
            return network
    raise Unavailable(f"no free network in {NETWORK}")


def _namespaces() -> list[str]:
    return [line.split()[0] for line in _ip("netns").splitlines() if line.startswith(PREFIX)]


def _remove_leftovers() -> None:
    """What testbeds left whose processes were killed."""
    links = re.findall(rf"^\d+: ({PREFIX}\d+b)", _ip("-o", "link"), re.MULTILINE)
    for name in [*_namespaces(), *links]:
        pid = re.match(rf"{PREFIX}(\d+)", name)
        if pid and not Path("/proc", pid[1]).exists():
            _remove([name] if name in _namespaces() else [], name)


def _remove(names: Sequence[str], bridge: str) -> None:
    """Processes, namespaces with their veths, the bridge; what is not there is fine."""
    for name in names:
        _kill_all(name)
        subprocess.run([_tool("ip"), "netns", "delete", name], capture_output=True)
        subprocess.run([_tool("ip"), "link", "delete", name], capture_output=True)
    subprocess.run([_tool("ip"), "link", "delete", bridge], capture_output=True)


def _kill_all(name: str) -> None:
    """Every process inside a namespace."""
    listed = subprocess.run([_tool("ip"), "netns", "pids", name], capture_output=True, text=True)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)

"""The virtual cluster: links of the stated rate, and nothing left of it whatever happens."""

import os
import signal
import subprocess
import sys
import time

import pytest

from expograph.cluster import testbed
from expograph.cluster.testbed import Unavailable, bytes_per_second

needs = pytest.mark.skipif(bool(testbed.missing()), reason=f"needs {testbed.missing()}")
pytestmark = pytest.mark.usefixtures("all_cores")


def network() -> tuple[str, str]:
    """Namespaces and links of this machine, without what changes by itself."""
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout
    spaces = subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
    return spaces, "\n".join(line.split()[0] for line in links.splitlines())


@pytest.mark.parametrize(
    ("rate", "expected"), [("1gbit", 1.25e8), ("100mbit", 1.25e7), ("2.5gbit", 3.125e8)]
)
def test_rates(rate, expected):
    assert bytes_per_second(rate) == expected


@pytest.mark.parametrize("rate", ["", "1", "1gb", "gbit", "-1gbit", "0gbit", "1 gbit", "1gbit;"])
def test_a_wrong_rate_is_refused_in_one_line(rate):
    with pytest.raises(ValueError, match="expected a number with kbit, mbit or gbit"):
        testbed.Testbed(2, rate)


def test_without_root_it_says_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert any("root" in lack for lack in testbed.missing())
    with pytest.raises(Unavailable, match="a testbed needs root"):
        testbed.Testbed(2).__enter__()


def test_without_iproute2_it_says_so(monkeypatch):
    monkeypatch.setattr(testbed, "_found", lambda name: None if name == "tc" else "/bin/true")
    assert any("tc (install iproute2)" in lack for lack in testbed.missing())


@needs
def test_nothing_is_left_after_it_and_after_an_error_in_it():
    before = network()
    with testbed.Testbed(3, "100mbit") as hosts:
        assert network() != before and len(set(hosts.addresses)) == 3
        folder = hosts.folder
    assert network() == before and not folder.exists()
    with pytest.raises(KeyError), testbed.Testbed(2):
        raise KeyError
    assert network() == before


HOLD = """
import sys, time
from expograph.cluster.testbed import Testbed
with Testbed(2) as hosts:
    import subprocess
    sleeper = subprocess.Popen(hosts.enter(1, ["sleep", "1000"]))
    time.sleep(0.3)
    print("up", flush=True)
    time.sleep(1000)
"""


@needs
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(number):
    """A killed one cannot clean up: the next testbed does it, processes inside included."""
    before = network()
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "up\n"
    holder.send_signal(number)
    holder.wait(20)
    if number == signal.SIGKILL:
        assert network() != before
        with testbed.Testbed(1):
            pass
    assert network() == before
    sleepers = subprocess.run(["pgrep", "-fx", "sleep 1000"], capture_output=True, text=True)
    assert sleepers.stdout == ""


@needs
def test_two_side_by_side_have_networks_of_their_own():
    code = HOLD.replace("time.sleep(1000)", "time.sleep(1)").replace('"up"', "hosts.addresses")
    a, b = (
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    assert a.communicate(timeout=30)[0] != b.communicate(timeout=30)[0]
    assert a.returncode == b.returncode == 0


RECEIVE = """
import socket, sys, threading, time
server = socket.create_server((sys.argv[1], 6000), backlog=8)
def drain(connection):
    while connection.recv(1 << 20):
        pass
connections = [server.accept()[0] for _ in range(int(sys.argv[2]))]
start = time.perf_counter()
threads = [threading.Thread(target=drain, args=(c,)) for c in connections]
[t.start() for t in threads], [t.join() for t in threads]
print(time.perf_counter() - start)
"""
SEND = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 6000))
connection.sendall(bytes(int(sys.argv[2])))
"""


@needs
@pytest.mark.parametrize("senders", [1, 3])
def test_a_link_carries_its_rate_and_no_more(senders):
    """20 MB at 200 Mbit/s take 0.8 s, from one sender or from three together."""
    total = 20_000_000
    python = [sys.executable, "-S", "-c"]
    with testbed.Testbed(4, "200mbit") as hosts:
        words = [*python, RECEIVE, hosts.addresses[0], str(senders)]
        receiver = subprocess.Popen(hosts.enter(0, words), stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        for i in range(senders):
            words = [*python, SEND, hosts.addresses[0], str(total // senders)]
            subprocess.Popen(hosts.enter(i + 1, words))
        seconds = float(receiver.communicate(timeout=60)[0])
        assert 0.9 < seconds * hosts.rate_bytes / total < 1.3


@needs
def test_mpi_runs_across_the_hosts_and_a_hanging_job_is_killed():
    pytest.importorskip("mpi4py", reason="no cluster environment: make cluster-env")
    code = (
        "from mpi4py import MPI; import socket; w = MPI.COMM_WORLD\n"
        "names = w.gather((w.rank, socket.gethostname()))\n"
        "w.rank or open({!r}, 'w').write(repr(names))"
    )
    with testbed.Testbed(3, "1gbit") as hosts:
        told = hosts.folder / "told"
        done = hosts.run([sys.executable, "-c", code.format(str(told))], timeout=60)
        assert done.returncode == 0
        assert told.read_text() == "[(0, 'h0'), (1, 'h1'), (2, 'h2')]"
        with pytest.raises(subprocess.TimeoutExpired):
            hosts.run(["sleep", "987"], timeout=3)
        sleepers = subprocess.run(["pgrep", "-fx", "sleep 987"], capture_output=True, text=True)
        assert sleepers.stdout == ""

"""Nodes on this machine for a job that has no cluster: they listen on loopback alone, and end with the bridge."""
import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import tempfile
import time

from ._processes import below, table

_START = 90  # seconds for a node
_OF_HEAD = ("include_dashboard", "temp_dir")
_PREFIX = "kinora-ray-"
_OF_RAY = ("raylet", "gcs_server", "python")  # programs of a node
_TRIES = 20  # to remove a folder, 0.1 s apart

# Bytes of TMPDIR: a socket's path has 107 (unix(7)), of which this folder and Ray's names there take up to 91.
_LONGEST = 16


class Local:

    def __init__(self):
        """Sets variables that Ray reads when it is imported."""
        self.cluster = None
        place = tempfile.gettempdir()
        self.place = place if len(os.fsencode(place)) <= _LONGEST else "/tmp"
        _sweep(self.place)
        self.folder = tempfile.mkdtemp(prefix=_PREFIX, dir=self.place)
        self.held = open(f"{self.folder}/new", "w")
        fcntl.flock(self.held, fcntl.LOCK_EX)
        os.rename(self.held.name, f"{self.folder}/held")
        os.mkdir(f"{self.folder}/ray")
        # Ray's file with the address of "the" cluster of this machine goes there too, so that "auto" finds no other's.
        os.environ.update({"RAY_TMPDIR": self.folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
                           "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000",
                           "RAY_health_check_timeout_ms": "1000", "RAY_health_check_failure_threshold": "3",
                           "RAY_agent_register_timeout_ms": "120000",
                           "RAY_raylet_start_wait_time_s": str(_START)})

    def start(self, n):
        """Returns the address. Raises Unusable if the nodes do not start."""
        from ray.cluster_utils import Cluster

        from .bridge import Unusable
        cores = max(1, (os.cpu_count() or 1) // n)
        room = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0
        node = {"num_cpus": 0, "resources": {"kinora": cores}, "include_dashboard": False,
                "node_ip_address": "127.0.0.1", "temp_dir": f"{self.folder}/ray",
                "object_store_memory": max(80 << 20, min(1 << 30, room // (2 * n)))}
        since = time.monotonic()
        try:
            self.cluster = Cluster()
            for i in range(n):
                self.cluster.add_node(**{k: v for k, v in node.items() if i == 0 or k not in _OF_HEAD})
        except Exception as error:  # Ray has no type for it
            raise Unusable(f"Ray's nodes did not start in {time.monotonic() - since:.0f} s; this machine is busy: run "
                           f"again, or take engine = \"local\" ({' '.join(str(error).split())})") from error
        return self.cluster.address

    def stop(self):
        # Agents and actors live on for a while without their node; a node that did not start, too.
        rest = set(below({os.getpid()}, table())) - {os.getpid()}
        if self.cluster:
            for node in filter(None, [*self.cluster.worker_nodes, self.cluster.head_node]):
                node.kill_all_processes(check_alive=False, allow_graceful=False)
        for pid in rest:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.held.close()
        _sweep(self.place)


def _sweep(place):
    """Removes the folders there whose processes have ended: the kernel gave their locks back."""
    for entry in os.scandir(place):
        with contextlib.suppress(OSError):  # it is gone, or held
            if entry.name.startswith(_PREFIX) and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                with open(f"{entry.path}/held") as held:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(entry.path)


def _remove(folder):
    """Ends what still runs there and would make it again, and removes it, its lock last. What is left, the next sweep
    finds."""
    for _ in range(_TRIES):
        users = _users(folder)
        for pid in users:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not users:
            with contextlib.suppress(OSError):
                if os.path.isdir(f"{folder}/ray"):
                    shutil.rmtree(f"{folder}/ray")
                shutil.rmtree(folder)
            if not os.path.exists(folder):
                break
        time.sleep(0.1)


def _users(folder):
    """Ray's processes of a folder: their command lines name it, as do those of a reader of its logs, which are spared.
    """
    out = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                program = os.path.basename(os.readlink(f"{entry.path}/exe"))
                with open(f"{entry.path}/cmdline", "rb") as words:
                    if program.startswith(_OF_RAY) and os.fsencode(f"{folder}/ray/") in words.read():
                        out.append(int(entry.name))
    return out

"""Nodes on this machine for a job that has no cluster: they listen on loopback alone, and end with the bridge."""
import contextlib
import os
import secrets
import shutil
import signal
import tempfile


class Local:

    def __init__(self):
        """Sets variables that Ray reads when it is imported."""
        self.cluster = None
        self.folder = tempfile.mkdtemp(prefix="kinora-ray-")
        os.mkdir(f"{self.folder}/ray")
        # Ray's file with the address of "the" cluster of this machine goes there too, so that "auto" finds no other's.
        os.environ.update({"RAY_TMPDIR": self.folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
                           "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000",
                           "RAY_health_check_timeout_ms": "1000", "RAY_health_check_failure_threshold": "3"})

    def start(self, n):
        """Returns the address."""
        from ray.cluster_utils import Cluster
        cores = max(1, (os.cpu_count() or 1) // n)
        room = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0
        node = {"num_cpus": 0, "resources": {"kinora": cores}, "include_dashboard": False,
                "node_ip_address": "127.0.0.1", "temp_dir": f"{self.folder}/ray",
                "object_store_memory": max(80 << 20, min(1 << 30, room // (2 * n)))}
        self.cluster = Cluster(initialize_head=True, head_node_args=node)
        for _ in range(n - 1):
            self.cluster.add_node(**{k: v for k, v in node.items() if k not in ("include_dashboard", "temp_dir")})
        return self.cluster.address

    def stop(self):
        if self.cluster:
            rest = _below()  # agents and actors live on for a while without their node
            for node in [*self.cluster.worker_nodes, self.cluster.head_node]:
                node.kill_all_processes(check_alive=False, allow_graceful=False)
            for pid in rest:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _below():
    """The processes that this one has started, and those that they have."""
    parents, out = {}, []
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit():
                with open(f"/proc/{entry.name}/stat") as stat:
                    parents[int(entry.name)] = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    for pid in parents:
        above = parents[pid]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            out.append(pid)
    return out

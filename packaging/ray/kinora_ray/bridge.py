"""The bridge: the only client of Ray. It starts actors on the nodes that the engine names, passes calls and samples on,
and says which processes and nodes are lost. It decides nothing, repeats nothing, and ends with its socket."""
import asyncio
import ipaddress
import os
import socket
import sys
import traceback

import kinora

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.pop("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", None)
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # KinoraStage sets CUDA_VISIBLE_DEVICES itself

from . import _local
from ._stage import KinoraNode, KinoraStage
from ._wire import Wire

_PLACE = 60  # seconds for a node's first actor
_LOOK = 0.5  # seconds between two looks at the nodes
_VISIT = 10  # seconds for a node to answer


class Unusable(Exception):
    """The cluster cannot be used: why, and what to do."""


def _imported():
    try:
        import ray
        import ray.exceptions
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise Unusable(f"{sys.executable} cannot import Ray ({error}); install it anew") from None
    return ray


def _difference(mine, theirs):
    for name in ("version", "abi"):
        if mine[name] != theirs[name]:
            return f"its Kinora has {name} {theirs[name]}, and this one {mine[name]}"
    names = sorted(name for name in {*mine["plugins"], *theirs["plugins"]}
                   if mine["plugins"].get(name) != theirs["plugins"].get(name))
    return f"its plugins differ: {', '.join(names[:8])}" if names else ""


class Worker:

    def __init__(self, actor, node):
        self.actor, self.node = actor, node
        self.call, self.taken, self.cancelled = 0, asyncio.Event(), False
        self.task, self.heard = None, 0.0  # of the call; when it was last heard, or asked


class Bridge:

    def __init__(self, wire):
        self.wire, self.ray, self.fingerprint, self.cluster = wire, None, None, None
        self.workers, self.inputs, self.tasks = {}, {}, set()
        self.nodes, self.keepers, self.lost = {}, {}, set()
        self.opened, self.leaving, self.ended = False, set(), asyncio.Event()

    # The engine's letters.

    def readable(self):
        try:
            while (letter := self.wire.receive()) is not None:
                self.hear(*letter)
        except EOFError:
            self.ended.set()

    def hear(self, head, packet, pieces):
        what = head["is"]
        if what == "input":
            self.inputs.setdefault(head["call"], []).append((packet, pieces))
        elif what in ("open", "start", "call"):
            self.begin(getattr(self, what)(head))
        elif what == "take":
            for worker in self.workers.values():
                if worker.call == head["call"]:
                    worker.taken.set()
        elif worker := self.workers.get(head["worker"]):
            self.cancel(worker) if what == "cancel" else self.end(head["worker"])

    def begin(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.over)

    def over(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception():
            error = task.exception()
            if not isinstance(error, Unusable):
                traceback.print_exception(error)
            self.gone(str(error) if isinstance(error, Unusable) else f"the bridge failed: {error!r}")

    def send(self, is_, packed=None, pieces=(), **head):
        try:
            self.wire.send({"is": is_, **head}, packed, pieces)
        except (BrokenPipeError, ConnectionError):
            self.ended.set()

    def gone(self, message):
        self.send("gone", message=message)

    # The cluster.

    async def open(self, head):
        if head.get("log"):  # what Ray writes to stdout and stderr
            file = os.open(head["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.close(file)
        self.fingerprint = kinora.fingerprint()
        address = head.get("address", "auto")
        self.cluster = _local.Local() if address.startswith("local:") else None
        self.ray = ray = _imported()
        if self.cluster:
            address = self.cluster.start(int(address[6:]))
        answers = False
        try:
            if address != "auto":  # Ray would try for a minute, and then end this process
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), _VISIT).close()
                answers = True
            ray.init(address=address, log_to_driver=False, namespace=f"kinora-{os.getpid()}", configure_logging=True,
                     logging_level="ERROR")
        except (OSError, ValueError, RuntimeError) as error:
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise Unusable(f"the cluster at '{address}' refuses this process ({line}); give it the cluster's token "
                           f"(RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH), its versions of Ray and Python, and a node on "
                           f"this machine (ray start --address={address})" if answers else
                           f"no Ray cluster at '{address}' ({line}); start one (ray start --head), or set address = "
                           f"\"local:2\"") from None
        self.refuse_insecure(head.get("insecure", False))
        where = dict(one.split("=", 1) for one in head.get("where", []))
        while not self.ended.is_set():
            there = [n for n in self.alive() if all(n["Labels"].get(k) == v for k, v in where.items())]
            await asyncio.gather(*(self.keep(node) for node in there if node["NodeID"] not in self.keepers))
            if self.nodes and not self.opened:
                self.opened = True
                self.send("opened", nodes=len(self.nodes))
            await asyncio.sleep(_LOOK)
            self.look()

    def refuse_insecure(self, insecure):
        host = self.ray.get_runtime_context().gcs_address.rpartition(":")[0].strip("[]")
        try:
            is_here = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_here = host == "localhost"
        if not (is_here or insecure or os.environ.get("RAY_AUTH_MODE") == "token"):
            raise Unusable(f"the cluster at {host} takes work from whoever reaches its ports; give all its nodes a "
                           f"token (RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH), or set insecure = true in a closed "
                           f"network")

    def alive(self):
        return [node for node in self.ray.nodes() if node["Alive"]]

    def on(self, node):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False), "max_restarts": 0,
                "max_task_retries": 0}

    async def keep(self, node):
        """Takes the free cores and GPUs of a node for the job, and tells the engine; or says why not."""
        name, address = node["NodeID"], node["NodeManagerAddress"]
        free = self.ray._private.state.available_resources_per_node().get(name, {})
        own, gpus = int(free.get("kinora", 0)), int(free.get("GPU", 0))
        cores = own or int(free.get("CPU", 0))
        if cores < 1:
            self.keepers[name] = None
            return self.send("said", level="warn", message=f"node {address} has no free core, so it is not used")
        takes = {"num_cpus": 0, "resources": {"kinora": own}} if own else {"num_cpus": cores}
        keeper = self.ray.remote(KinoraNode).options(num_gpus=gpus, **takes, **self.on(name)).remote()
        self.keepers[name] = keeper
        try:
            about = await asyncio.wait_for(keeper.about.remote(), _PLACE)
        except Exception as error:
            self.ray.kill(keeper)
            return self.send("said", level="warn",
                             message=f"node {address} is not used: {self.words(error) or 'it did not start an actor'}")
        if why := _difference(self.fingerprint, about["fingerprint"]):
            self.ray.kill(keeper)
            return self.send("said", level="warn",
                             message=f"node {address} is not used: {why}; install the same on both")
        self.nodes[name] = {"gpus": about["gpus"], "address": address, "cores": cores}
        self.send("node", node=name, state="ready", cores=float(cores), gpus=float(len(about["gpus"])),
                  memory=about["memory"], address=address)

    def lose(self, name):
        if name in self.lost:
            return
        self.lost.add(name)
        self.send("node", node=name, state="lost", address=self.nodes[name]["address"])
        for number in [number for number, worker in self.workers.items() if worker.node == name]:
            self.send("died", worker=number, message="lost with its node", lost=True)
            self.end(number)

    def look(self):
        """Tells which nodes are lost, and which leave: they are drained, as before a preemption."""
        there = {node["NodeID"] for node in self.alive()}
        for name in self.draining() & self.nodes.keys() - self.leaving:
            self.leaving.add(name)
            self.send("node", node=name, state="leaving", address=self.nodes[name]["address"])
        for name in self.nodes.keys() - there - self.lost:
            self.lose(name)
        now = asyncio.get_running_loop().time()
        for number, worker in self.workers.items():
            if worker.task and now - worker.heard > _VISIT:
                worker.heard = now
                self.begin(self.ask(number, worker))

    async def ask(self, number, worker):
        """A generator whose actor is gone may be silent for ever."""
        try:
            await worker.actor.here.options(concurrency_group="control").remote()
        except self.ray.exceptions.RayError as error:
            await self.died(number, worker, error)

    def draining(self):
        client = self.ray._private.worker.global_worker.gcs_client
        return set(client.get_draining_nodes()) if hasattr(client, "get_draining_nodes") else set()

    def words(self, error):
        """What an error of Ray says, in one line."""
        lines = str(getattr(error, "cause", None) or error).strip().splitlines()
        return lines[0] if lines else type(error).__name__

    # The workers.

    async def start(self, head):
        number, node = head["worker"], head["node"]
        kind = self.ray.remote(concurrency_groups={"control": 1})(KinoraStage)
        actor = kind.options(num_cpus=0, **self.on(node)).remote()
        worker = self.workers[number] = Worker(actor, node)
        spec = {**head, "gpus": self.nodes[node]["gpus"]}
        try:
            resources = await actor.open.remote(spec)
        except Exception as error:
            await self.died(number, worker, error)
            return
        if self.workers.get(number) is worker:
            self.send("started", worker=number, resources=resources)

    def end(self, number):
        worker = self.workers.pop(number)
        if worker.task and worker.task is not asyncio.current_task():
            worker.task.cancel()
        self.ray.kill(worker.actor, no_restart=True)

    def cancel(self, worker):
        worker.cancelled = True
        worker.taken.set()
        worker.actor.cancel.options(concurrency_group="control").remote()

    async def died(self, number, worker, error):
        """RayTaskError first: that of a lost argument is also an ActorDiedError, of a worker that lives."""
        if self.workers.get(number) is not worker:
            return
        if isinstance(error, self.ray.exceptions.RayTaskError):
            how = self.words(error)
        else:
            await self.visit(worker.node)
            how = "killed, or its memory was lost"
        if self.workers.get(number) is worker:
            self.send("died", worker=number, message=how, lost=False)
            self.end(number)

    async def visit(self, node):
        """A node whose keeper does not answer is lost: Ray itself says so much later."""
        try:
            await asyncio.wait_for(self.keepers[node].here.remote(), _VISIT)
        except Exception:
            self.lose(node)

    async def call(self, head):
        number, call, worker = head["worker"], head["call"], self.workers.get(head["worker"])
        inputs = self.inputs.pop(call, [])
        if worker is None:
            return
        worker.call, worker.cancelled, worker.task = call, False, asyncio.current_task()
        worker.heard = asyncio.get_running_loop().time()
        given = [(packet, [_buffer(piece) for piece in pieces]) for packet, pieces in inputs]
        del inputs
        items = worker.actor.serve.options(num_returns="streaming", _generator_backpressure_num_objects=1).remote(
            head["what"], *given)
        del given
        try:
            async for item in items:
                if await self.told(number, worker, await item):
                    return
            raise self.ray.exceptions.RayError("the call ended without a word")
        except Exception as error:
            worker.task = None
            await self.died(number, worker, error)

    async def told(self, number, worker, item):
        """Passes on what the stage told, and waits until it is taken. Returns whether the call is over."""
        what, fields, packed, pieces = item
        worker.heard = asyncio.get_running_loop().time()
        if what == "done":
            worker.task = None
            self.send("done", worker=number, call=worker.call, **fields)
            return True
        if worker.cancelled:
            return False
        worker.taken.clear()
        self.send("told", packed, pieces, worker=number, call=worker.call, what=what, **fields)
        del item, pieces
        if what != "beat":
            await worker.taken.wait()
            worker.heard = asyncio.get_running_loop().time()
        return False


def _buffer(piece):
    import pickle
    return pickle.PickleBuffer(piece)


async def _serve(wire):
    bridge = Bridge(wire)
    loop = asyncio.get_running_loop()
    loop.add_reader(wire.fileno(), bridge.readable)
    await bridge.ended.wait()
    loop.remove_reader(wire.fileno())
    for task in bridge.tasks:
        task.cancel()
    for actor in [*(worker.actor for worker in bridge.workers.values()), *filter(None, bridge.keepers.values())]:
        bridge.ray.kill(actor, no_restart=True)
    if bridge.cluster:
        bridge.cluster.stop()
        os._exit(0)  # Ray's own goodbye waits for nodes that are gone
    if bridge.ray:
        bridge.ray.shutdown()


def main():
    asyncio.run(_serve(Wire(3)))

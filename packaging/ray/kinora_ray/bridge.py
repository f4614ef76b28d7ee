"""The bridge: the only client of Ray. It starts actors on the nodes that the engine names, passes calls and samples on,
and says which processes and nodes are lost. It decides nothing, repeats nothing, and ends with its socket."""
import asyncio
import collections
import contextlib
import ipaddress
import itertools
import os
import pickle
import re
import socket
import sys
import tempfile
import time
import traceback

import kinora

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.pop("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", None)
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # KinoraStage sets CUDA_VISIBLE_DEVICES itself

from . import _local
from ._stage import KinoraNode, KinoraStage
from ._wire import Wire, head_of

_PLACE = 60  # seconds for a node's first actor
_TOGETHER = 20  # seconds for the first nodes, after which those that are ready begin
_AGAIN = 10  # seconds until a node that was busy is looked at again
_LOOK = 0.5  # seconds between two looks at the nodes
_VISIT = 10  # seconds for a node to answer
_SPILLS = 10  # seconds between two looks at what the object stores have spilled to disk


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

    def __init__(self, actor, node, stage):
        self.actor, self.node, self.stage = actor, node, stage
        self.call, self.home, self.cancelled = 0, False, False
        self.taken, self.owed = asyncio.Event(), 0  # letters that the engine has not taken yet
        self.task, self.heard = None, 0.0  # of the call; when it was last heard, or asked


# What a stage emitted and a node's object store keeps.
Piece = collections.namedtuple("Piece", "ref node stage size")


class Bridge:

    def __init__(self, wire):
        self.wire, self.ray, self.fingerprint, self.cluster = wire, None, None, None
        self.workers, self.inputs, self.tasks = {}, {}, set()
        self.nodes, self.keepers, self.lost = {}, {}, set()
        self.passed = {}  # nodes that are not used: when they are looked at again
        self.opened, self.leaving, self.ended, self.usable = False, set(), asyncio.Event(), True
        self.pieces, self.numbers = {}, itertools.count(time.time_ns())  # no two bridges of a job give one number
        self.memory, self.spilled, self.looked = 0, {}, 0.0
        self.store = ""  # the folder for what leaves the pipeline; "": none

    # The engine's letters.

    def readable(self):
        try:
            while (letter := self.wire.receive()) is not None:
                self.hear(*letter)
        except EOFError:
            self.ended.set()

    def hear(self, head, packet, pieces):
        what = head["is"]
        for number in head.get("free", ()):
            self.pieces.pop(number, None)
        if what == "input":
            self.inputs.setdefault(head["call"], []).append((packet, head["pieces"], pieces))
        elif what in ("open", "start", "call"):
            self.begin(getattr(self, what)(head))
        elif what == "take":
            for worker in self.workers.values():
                if worker.call == head["call"]:
                    worker.owed -= 1
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

    def send(self, is_, packed=None, beside=(), **head):
        try:
            self.wire.send({"is": is_, **head}, packed, beside)
        except (BrokenPipeError, ConnectionError):
            self.ended.set()

    def gone(self, message):
        self.send("gone", message=message)
        self.usable = False
        self.ended.set()

    # The cluster.

    async def open(self, head):
        if head.get("log"):  # what Ray writes to stdout and stderr
            file = os.open(head["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.close(file)
        self.fingerprint = kinora.fingerprint()
        address, self.memory = head.get("address", "auto"), head.get("memory", 0)
        if head.get("store"):  # processes of an earlier bridge may still write into theirs
            os.makedirs(head["store"], exist_ok=True)
            self.store = tempfile.mkdtemp(dir=head["store"])
        if address == "auto" and re.fullmatch(r"[^/]+:\d+", named := os.environ.get("RAY_ADDRESS", "")):
            address = named
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
        self.begin(self.beat())
        where = dict(one.split("=", 1) for one in head.get("where", []))
        first = asyncio.get_running_loop().time()
        while not self.ended.is_set():
            there, leaving = await asyncio.to_thread(self.seen)  # while the head is away, calls go on
            now = asyncio.get_running_loop().time()
            new = [node for node in there if node["NodeID"] not in self.keepers and
                   now >= self.passed.get(node["NodeID"], 0) and
                   all(node["Labels"].get(k) == v for k, v in where.items())]
            free = await asyncio.to_thread(self.ray._private.state.available_resources_per_node) if new else {}
            for node in new:
                self.keepers[node["NodeID"]] = None  # its first actor is being started
                self.begin(self.keep(node, free.get(node["NodeID"], {})))
            if self.nodes and not self.opened and (now - first > _TOGETHER or self.keepers.keys() == self.nodes.keys()):
                self.opened = True
                self.send("opened", nodes=len(self.nodes))
            self.look({node["NodeID"] for node in there}, leaving)
            await asyncio.sleep(_LOOK)
            self.begin(self.look_at_stores())

    async def beat(self):
        while not self.ended.is_set():
            self.send("beat")
            await asyncio.sleep(_LOOK)

    def refuse_insecure(self, insecure):
        host = self.ray.get_runtime_context().gcs_address.rpartition(":")[0].strip("[]")
        try:
            is_here = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_here = host == "localhost"
        self.wants_token = not (is_here or insecure)
        if self.wants_token and os.environ.get("RAY_AUTH_MODE") != "token":
            raise Unusable(f"the cluster at {host} takes work from whoever reaches its ports; give all its nodes a "
                           f"token (RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH), or set insecure = true in a closed "
                           f"network")

    def seen(self):
        """The nodes that are there, and {id: ms since 1970, or 0} of those that leave, as before a preemption."""
        client = self.ray._private.worker.global_worker.gcs_client
        leaving = client.get_draining_nodes() if hasattr(client, "get_draining_nodes") else {}
        return [node for node in self.ray.nodes() if node["Alive"]], leaving

    def on(self, node):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False), "max_restarts": 0,
                "max_task_retries": 0}

    async def keep(self, node, free):
        """Takes the free cores and GPUs of a node for the job, and tells the engine; or says why not."""
        name, address = node["NodeID"], node["NodeManagerAddress"]
        own, gpus = "kinora" in node["Resources"], int(free.get("GPU", 0))
        cores = int(free.get("kinora" if own else "CPU", 0))
        if cores < 1:
            return self.pass_over(name, address, "it has no free core")
        coders = {what: free.get(what, 0.0) for what in ("NVDEC", "NVENC") if what in node["Resources"]}
        takes = {what: n for what, n in {**coders, "kinora": cores if own else 0}.items() if n}
        keeper = self.ray.remote(KinoraNode).options(num_cpus=0 if own else cores, num_gpus=gpus, resources=takes,
                                                     **self.on(name)).remote()
        self.keepers[name] = keeper
        try:
            about = await asyncio.wait_for(keeper.about.remote(), _PLACE)
        except asyncio.TimeoutError:
            return self.pass_over(name, address, f"it has not started an actor within {_PLACE} s")
        except Exception as error:
            return self.pass_over(name, address, self.words(error))
        if why := _difference(self.fingerprint, about["fingerprint"]):
            return self.pass_over(name, address, f"{why}; install the same on both", float("inf"))
        if self.wants_token and not about["token"]:  # a cluster without one takes any token
            return self.pass_over(name, address, "its Ray was started without RAY_AUTH_MODE=token, so it takes work "
                                  "from whoever reaches its ports", float("inf"))
        self.nodes[name] = {"gpus": about["gpus"], "address": address, "cores": cores,
                            "stores": bool(self.store) and await self.shares(name, keeper, address)}
        store = int(node["Resources"].get("object_store_memory", 0))
        if store < 1.3 * self.memory and not self.cluster:
            self.send("said", level="warn",
                      message=f"node {address} has an object store of {store >> 20} MiB, so samples there take at most "
                      f"{int(store / 1.3) >> 20} MiB, not memory = {self.memory >> 20} MiB; start its Ray with "
                      f"--object-store-memory={int(1.3 * self.memory)} for more")
        self.send("node", node=name, state="ready", cores=float(cores), gpus=float(len(about["gpus"])),
                  model=node["Labels"].get("ray.io/accelerator-type", ""), memory=about["memory"], store=store,
                  address=address, **{what.lower(): n for what, n in coders.items()})

    async def shares(self, name, keeper, address):
        """Whether this machine has what the node writes below the job's folder, and may move it; says so if not."""
        try:
            await asyncio.wait_for(keeper.write.remote(f"{self.store}/{name}"), _VISIT)
            await asyncio.to_thread(os.rename, f"{self.store}/{name}/probe", f"{self.store}/probe")
            return True
        except Exception as error:
            self.send("said", level="warn",
                      message=f"node {address} does not share the job's folder with this machine, to which all that is "
                      f"kept there comes ({self.words(error)}); mount it on both for one user, or set store = "
                      f"\"driver\"")
            return False

    def pass_over(self, name, address, why, seconds=_AGAIN):
        """Says once why a node is not used; after so many seconds it is looked at again."""
        if keeper := self.keepers.pop(name, None):
            self.ray.kill(keeper)
        again = "" if seconds == float("inf") else f"; it is looked at again every {seconds} s"
        if name not in self.passed or not again:
            self.send("said", level="warn", message=f"node {address} is not used: {why}{again}")
        self.passed[name] = asyncio.get_running_loop().time() + seconds

    async def look_at_stores(self):
        """Says of a node which processes it has killed, and once that its store writes to disk and which stage has most
        there."""
        now = asyncio.get_running_loop().time()
        if now - self.looked < _SPILLS:
            return
        self.looked = now
        for name in self.nodes.keys() - self.lost:
            with contextlib.suppress(Exception):  # the node may have gone
                spilled, said = await asyncio.wait_for(self.keepers[name].looked.remote(), _VISIT)
                for line in said:
                    self.send("said", level="warn", message=f"node {self.nodes[name]['address']} {line}; fewer "
                              f"`workers` of the stage that needs most take less")
                bytes_of = collections.Counter()
                for piece in self.pieces.values():
                    bytes_of[piece.stage] += piece.size if piece.node == name else 0
                if spilled > self.spilled.setdefault(name, spilled) and bytes_of:
                    self.spilled[name] = float("inf")
                    stage, size = bytes_of.most_common(1)[0]
                    self.send("said", level="warn",
                              message=f"the object store of node {self.nodes[name]['address']} is full and writes to "
                              f"disk; most there is of stage '{stage}' ({size >> 20} MiB); lower the job's memory, or "
                              f"start its Ray with a larger --object-store-memory")

    def lose(self, name):
        if name in self.lost:
            return
        self.lost.add(name)
        self.send("node", node=name, state="lost", address=self.nodes[name]["address"])
        for number in [number for number, worker in self.workers.items() if worker.node == name]:
            self.send("died", worker=number, message="lost with its node", lost=True)
            self.end(number)

    def look(self, there, leaving):
        """Tells which nodes are lost, and which leave."""
        for name in leaving.keys() & self.nodes.keys() - self.leaving:
            self.leaving.add(name)
            left = max(0.0, leaving[name] / 1000 - time.time()) if leaving[name] else None
            self.send("node", node=name, state="leaving", address=self.nodes[name]["address"], left=left)
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

    def words(self, error):
        """What an error of Ray says, in one line."""
        lines = str(getattr(error, "cause", None) or error).strip().splitlines()
        return lines[0] if lines else type(error).__name__

    def last_words(self, error):
        """Why an actor is dead: what is below the lines that name it."""
        lines = str(error).strip().splitlines()
        return " ".join(line for line in lines[1:] if not line.startswith("\t")) or self.words(error)

    # The workers.

    async def start(self, head):
        number, node = head["worker"], head["node"]
        kind = self.ray.remote(concurrency_groups={"control": 1})(KinoraStage)
        actor = kind.options(num_cpus=0, **self.on(node)).remote()
        worker = self.workers[number] = Worker(actor, node, head["name"])
        spec = {**head, "gpus": self.nodes[node]["gpus"]}
        opened = actor.open.remote(spec)
        try:
            await actor.here.options(concurrency_group="control").remote()
            self.send("placed", worker=number)
            resources = await opened
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
            print(f"worker {number}, {worker.stage}: {error}", file=sys.stderr, flush=True)
            await self.visit(worker.node)
            at = self.nodes[worker.node]["address"]
            how = f"killed, or its memory was lost (node {at}: {self.last_words(error)[:400]})"
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
        worker.call, worker.home, worker.cancelled, worker.task = call, head["home"], False, asyncio.current_task()
        worker.heard = asyncio.get_running_loop().time()
        used = [number for _, numbers, _ in inputs for number in numbers if number]
        try:
            given = [self.pieces[number].ref if number else pickle.PickleBuffer(beside.pop(0))
                     for _, numbers, beside in inputs for number in numbers]
            stores = head["leaves"] and self.nodes[worker.node]["stores"]
            letters = [(packet, numbers) for packet, numbers, _ in inputs]
            first = worker.actor.begin.remote(head["what"], letters, f"{self.store}/{call}" if stores else "", *given)
            del inputs, given, letters
            if await self.told(number, worker, await first, None):
                return
            del first
            items = worker.actor.rest.options(num_returns="streaming", _generator_backpressure_num_objects=1).remote()
            async for item in items:
                if await self.told(number, worker, await item, items):
                    return
            raise self.ray.exceptions.RayError("the call ended without a word")
        except Exception as error:
            worker.task = None
            await (self.lose_pieces(number, worker, used) if self.is_loss(error) else self.died(number, worker, error))

    def is_loss(self, error):
        """Whether bytes are gone. The error of a call with a lost argument is a RayTaskError whose cause is Ray's."""
        kinds = self.ray.exceptions
        return isinstance(error, (kinds.ObjectLostError, KeyError)) or (
            isinstance(error, kinds.RayTaskError) and isinstance(error.cause, kinds.RayError))

    async def lose_pieces(self, number, worker, used):
        for node in {self.pieces[one].node for one in used if one in self.pieces} | {worker.node}:
            await self.visit(node)
        self.send("lost", pieces=used)
        if self.workers.get(number) is worker:
            self.send("died", worker=number, message="the bytes of its sample were lost", lost=True)
            self.end(number)

    async def following(self, items):
        """The next object of a call, whose bytes stay where they are."""
        ref = await asyncio.to_thread(next, items, None)
        if ref is None or ref == items.completed():
            await (ref or items.completed())
            raise self.ray.exceptions.RayError("the call ended within a sample")
        return ref

    async def placed(self, worker, what, packed, numbers, items):
        """Keeps a sample's new pieces. Returns the numbers for the engine, and the bytes of those that it needs."""
        refs = [self.pieces[one].ref if one else await self.following(items) for one in numbers]
        home = what == "set" or (what == "emit" and worker.home)
        sample, out = head_of(packed)["sample"], []
        about = {one["piece"]: one for one in sample["fields"] + sample["tensors"] if "piece" in one}
        needed = [home or about[at]["name"].endswith(("json", "txt")) for at in range(len(refs))]
        beside = [await ref for ref, is_needed in zip(refs, needed) if is_needed]
        for at, ref in enumerate(refs):
            one = 0 if needed[at] else numbers[at] or next(self.numbers)
            if one and not numbers[at]:
                self.pieces[one] = Piece(ref, worker.node, worker.stage, about[at]["size"])
            out.append(one)
        return out, beside

    async def told(self, number, worker, letters, items):
        """Passes on what the stage told, and waits until it is taken. Returns whether the call is over."""
        worker.heard = asyncio.get_running_loop().time()
        worker.owed = 0
        for what, fields, packed, numbers in letters:
            if what == "done":
                worker.task = None
                self.send("done", worker=number, call=worker.call, **fields)
                return True
            if worker.cancelled:
                for _ in range(numbers.count(0)):
                    await self.following(items)
                continue
            numbers, beside = await self.placed(worker, what, packed, numbers, items) if numbers else ([], [])
            worker.owed += what != "beat"
            self.send("told", packed, beside, worker=number, call=worker.call, what=what, pieces=numbers, **fields)
        while worker.owed > 0 and not worker.cancelled:
            worker.taken.clear()
            await worker.taken.wait()
            worker.heard = asyncio.get_running_loop().time()
        return False


async def _serve(wire):
    bridge = Bridge(wire)
    loop = asyncio.get_running_loop()
    loop.add_reader(wire.fileno(), bridge.readable)
    await bridge.ended.wait()
    loop.remove_reader(wire.fileno())
    for task in bridge.tasks:
        task.cancel()
    if bridge.usable:
        for actor in [*(worker.actor for worker in bridge.workers.values()), *filter(None, bridge.keepers.values())]:
            bridge.ray.kill(actor, no_restart=True)
    if bridge.cluster:
        bridge.cluster.stop()
    elif bridge.ray and bridge.usable:
        bridge.ray.shutdown()
    os._exit(0)  # Ray's own goodbye waits for nodes that are gone, and a thread for a head that is away


def main():
    asyncio.run(_serve(Wire(3)))

#!/usr/bin/env python3
"""storage/s3 against a real server (rclone serve s3, with SigV4 keys), directly and through a proxy that breaks
requests: nothing is lost, nothing is stored twice, no upload stays open, no secret is written.
usage: s3_storage.py S3_TRIAL KINORA ROOT SCRATCH [CASE...]"""
import functools, hashlib, json, os, pathlib, shutil, signal, subprocess, sys, time
import numpy as np

TRIAL, KINORA, ROOT, SCRATCH = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4]).resolve()
sys.path.insert(0, str(ROOT / "tests/support"))
import s3_server
from faulty_proxy import READ_FAULTS, WRITE_FAULTS, Proxy, sometimes
from s3_server import KEY, SECRET

MIB = 1 << 20
environment = functools.partial(s3_server.environment, SCRATCH)
failures, said_by_all = [], []


def holds(name, true, said=""):
    print(("ok    " if true else "WRONG ") + name, flush=True)
    if not true:
        failures.append(name)
        print("   ", said)


class Trial:
    def __init__(self, endpoint, env=None, **options):
        self.process = subprocess.Popen([TRIAL, json.dumps({"endpoint": endpoint, **options})],
                                        env=env or environment(), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def start(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def __call__(self, line):
        """(answer, requests, repeated)"""
        self.start(line)
        answer = self.process.stdout.readline()
        said_by_all.append(answer)
        text, _, counts = answer.rstrip("\n").rpartition(" | ")
        requests, repeated = map(int, counts.split())
        return text, requests, repeated

    def ok(self, name, line):
        answer, *counts = self(line)
        holds(name, answer.startswith("ok"), answer)
        return answer[3:], *counts

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        said_by_all.append(self.process.stderr.read())
        self.process.wait()


def made(seed, size):
    """The bytes that s3_trial writes: SplitMix64 of the offset."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.arange(1, size // 8 + 2, dtype=np.uint64) * np.uint64(
            0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))).astype("<u8").tobytes()[:size]


def straight(server):
    with Trial(server.url, part_size=5 * MIB, read_ahead=4 * MIB) as t:
        for size in (0, 1, 65536, 65537, 5 * MIB, 5 * MIB + 1, 23 * MIB + 12345):
            _, requests, repeated = t.ok(f"{size} bytes are written", f"put bucket/d/{size} {size} {size + 1}")
            parts = -(-size // (5 * MIB)) if size > 5 * MIB else 0
            # one PUT, or a start, the parts, a completion and a check of the result
            holds("  in as few requests as there can be", requests == (parts + 3 if parts else 1) and repeated == 0,
                  (requests, repeated))
            holds("  and lie on the server", server.file(f"d/{size}").read_bytes() == made(size + 1, size))
            for how in ("forward", "random", "whole", "threads"):
                t.ok(f"  and are read {how}",
                     f"get bucket/d/{size} {size} {size + 1} {how} {400_000 if how == 'threads' else 100_000}")
        _, requests, _ = t.ok("who reads on makes few requests",
                              f"get bucket/d/{23 * MIB + 12345} {23 * MIB + 12345} {23 * MIB + 12346} forward 65536")
        holds(f"  {requests} for 369 reads", requests < 115)
        t.ok("an object is replaced", f"put bucket/d/1 10 7")
        holds("  whole", server.file("d/1").read_bytes() == made(7, 10))
        t.ok("a dropped upload", f"drop bucket/dropped {12 * MIB} 1")
        holds("  leaves nothing", not server.file("dropped").exists())
        t.ok("an object is removed", "remove bucket/d/1")
        answer, *_ = t("remove bucket/d/1")
        holds("  once", answer.startswith("error") and "no such object" in answer, answer)


def certificates(server):
    with Trial(server.url) as t:
        answer, *_ = t("put bucket/a 10 1")
        holds("an untrusted certificate is refused",
              answer.startswith("error") and "name its authority's file by ca_file" in answer, answer)
    for n, how in enumerate(({"ca_file": str(server.certificate)},
                             {"env": environment(AWS_CA_BUNDLE=str(server.certificate))})):
        with Trial(server.url, **how) as t:
            t.ok("and taken, if ca_file does, or AWS_CA_BUNDLE", f"put bucket/a{n} 10 1")
        holds("  the object is there", server.names()[-1:] == [f"a{n}"], server.names())


def names(server):
    keys = ["plain", "with space", "plus+sign", "percent%20", "p%c", "ünï/コード", "a&b=c;d,e", "q?x#y", "tilde~!$'()*:@",
            "deep/er/and/deeper", "dot.tar.idx", "quote\"<>"]
    with Trial(server.url) as t:
        for i, key in enumerate(keys):
            server.file("there/" + key).parent.mkdir(parents=True, exist_ok=True)
            server.file("there/" + key).write_bytes(b"x" * i)
        answer, *_ = t.ok("odd names are listed", "list bucket/there")
        expected = sorted([p.name, 1, 0] if p.is_dir() else [p.name, 0, p.stat().st_size]
                          for p in server.file("there").iterdir())
        holds("  all, as they are", sorted(e[:3] for e in json.loads(answer)) == expected, answer)
        times = {e[0]: e[3] for e in json.loads(answer)}
        holds("  with their times", abs(times["plain"] / 1e9 - server.file("there/plain").stat().st_mtime) < 0.01)
        holds("  a slash at the end changes nothing", t("list bucket/there/")[0] == "ok " + answer)
        for key in keys:  # the trial's lines are split at spaces: these keys go through the test's own client below
            if " " not in key:
                t.ok(f"'{key}' is written", f"put bucket/here/{key} 1000 3")
                holds("  under that name",
                      server.file("here/" + key).exists() and server.file("here/" + key).read_bytes() == made(3, 1000))
                t.ok("  and read", f"get bucket/here/{key} 1000 3 whole")
        many = server.file("many")
        many.mkdir()
        for i in range(2345):
            (many / f"{i:05}").touch()
        answer, requests, _ = t.ok("2,345 objects are listed", "list bucket/many")
        holds("  in 3 pages, each once",
              requests == 3 and [e[0] for e in json.loads(answer)] == [f"{i:05}" for i in range(2345)], requests)
        for line, words in [("list bucket/none", "no object's name begins with it"),
                            ("list nobucket/a", "no such bucket"), ("get bucket/none 1 1 whole", "no such object"),
                            ("put nobucket/a 1 1", "no such bucket"),
                            (f"put nobucket/a {40 * MIB} 1", "no such bucket"), ("list ?", "is not a bucket name"),
                            ("get bucket 1 1 whole", "no object")]:
            answer, _, repeated = t(line)
            holds(f"'{line}' is refused at once", answer.startswith("error") and words in answer and repeated == 0,
                  answer)


def keys(server):
    server.file("k").write_bytes(b"12345")
    line = "get bucket/k 5 1 size"
    for name, env, words in [("a wrong secret", environment(AWS_SECRET_ACCESS_KEY="wrong-secret-9876"),
                              ["SignatureDoesNotMatch", "the environment"]),
                             ("an unknown key", environment(AWS_ACCESS_KEY_ID="SOMEBODYELSE"), ["InvalidAccessKeyId"]),
                             ("no credentials", {k: v for k, v in environment().items() if not k.startswith("AWS")},
                              ["no credentials", "anonymous = true"])]:
        with Trial(server.url, env) as t:
            answer, requests, repeated = t(line)
            holds(f"{name}: refused at once",
                  answer.startswith("error") and repeated == 0 and all(w in answer for w in words), answer)
            holds("  and no key is said", "wrong-secret" not in answer and "SOMEBODYELSE" not in answer, answer)
    with Trial(server.url, anonymous=True) as t:
        answer, *_ = t(line)
        holds("anonymous requests are refused by this server", answer.startswith("error"), answer)
    aws = SCRATCH / ".aws"
    aws.mkdir()
    (aws / "credentials").write_text(f"[old]\naws_access_key_id = {KEY}\naws_secret_access_key = wrong-secret-9876\n")
    (aws / "config").write_text(f"[profile old]\nendpoint_url = {server.url}\n")
    none = {k: v
            for k, v in environment(AWS_PROFILE="old").items()
            if k not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    with Trial("", none) as t:
        answer, *_ = t(line)
        holds("a profile's old secret is refused", "profile 'old'" in answer, answer)
        (aws / "credentials").write_text(f"[old]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
        t.ok("  and its new one is found while the program runs", line)
    with Trial(server.url, environment(AWS_SESSION_TOKEN="token-5555")) as t:
        answer, *_ = t(line)
        holds("a session's token is sent and signed", answer.startswith("ok"), answer)


def faults(server):
    total = {}
    with_faults = dict(part_size=5 * MIB, read_ahead=4 * MIB, timeout=2, retries=12)
    for seed in range(3):
        size = 12 * MIB + seed
        proxy = Proxy(server.at, sometimes(seed, 0.3, WRITE_FAULTS))
        with Trial(proxy.url, **with_faults) as t:
            _, requests, repeated = t.ok(f"seed {seed}: parts are written through faults",
                                         f"put bucket/f/{seed} {size} {seed}")
            for i in range(12):
                _, more, again = t.ok(f"  small {i}", f"put bucket/f/{seed}.{i} {i * 1000} {i}")
                requests, repeated = requests + more, repeated + again
            # libcurl itself repeats an unanswered request on a reused connection
            by_curl = proxy.count - requests
            holds(f"  {proxy.failed()} requests failed, each was repeated once ({by_curl} by libcurl)",
                  proxy.failed() == repeated + by_curl and repeated > 0, (requests, repeated))
            holds("  no parts are left", not proxy.settled().open_parts, proxy.open_parts)
            for f in proxy.faults():
                total[f] = total.get(f, 0) + 1
        holds("  every byte is there", server.file(f"f/{seed}").read_bytes() == made(seed, size))
        holds("  of the small ones too",
              all(server.file(f"f/{seed}.{i}").read_bytes() == made(i, i * 1000) for i in range(12)))
        proxy = Proxy(server.at, sometimes(seed, 0.3, READ_FAULTS))
        with Trial(proxy.url, **with_faults) as t:
            repeated = 0
            for how in ("forward", "random", "whole", "threads"):
                repeated += t.ok(f"  read {how} through faults",
                                 f"get bucket/f/{seed} {size} {seed} {how} {400_000 if how == 'threads' else 100_000}")[
                                     2]
            holds(f"  {len(proxy.faults())} faults, {repeated} requests repeated", repeated > 0 and proxy.faults())
            for f in proxy.faults():
                total[f] = total.get(f, 0) + 1
    holds("every kind of fault came", set(total) == set(READ_FAULTS + WRITE_FAULTS), total)
    holds("nothing is there twice, nothing else is there", [n for n in server.names() if n.startswith("f/")] ==
          sorted([f"f/{s}" for s in range(3)] + [f"f/{s}.{i}" for s in range(3) for i in range(12)]), server.names())


def endings(server):
    """Faults that do not go away."""
    server.file("e").write_bytes(made(1, 3 * MIB))
    for fault, words in [("503", "(4 tries)"), ("refuse", "(4 tries)"), ("cut", "(4 tries)"),
                         ("skewed", "set the clock")]:
        proxy = Proxy(server.at, lambda *_: fault)
        with Trial(proxy.url, retries=3, timeout=2) as t:
            # each truncated answer has half of the remaining bytes, so progress ends
            answer, *_ = t(f"put bucket/lost {6 * MIB} 1" if fault != "cut" else f"get bucket/none 10 1 whole")
            if fault == "cut":
                holds("a cut error is an error", answer.startswith("error"), answer)
            else:
                holds(f"{fault} without end is an error",
                      answer.startswith("error") and words in answer
                      and "s3://bucket/lost: cannot be written" in answer, answer)
    holds("  and nothing is written", not server.file("lost").exists())

    failing_part = lambda n, method, target: "503" if "partNumber=2" in target else None
    proxy = Proxy(server.at, failing_part)
    with Trial(proxy.url, retries=1, part_size=5 * MIB) as t:
        answer, *_ = t(f"put bucket/lost {23 * MIB} 1")
        holds("a part that cannot be sent fails the upload", "SlowDown" in answer, answer)
    holds("  which leaves no parts", not proxy.settled().open_parts and any(m == "DELETE" for m, *_ in proxy.log),
          proxy.open_parts)
    holds("  and no object", not server.file("lost").exists())

    ends = []
    lost_end = lambda n, method, target: "lost" if method == "POST" and "uploadId" in target and not ends.append(
        n) and len(ends) == 1 else None
    proxy = Proxy(server.at, lost_end)
    with Trial(proxy.url, retries=3, part_size=5 * MIB) as t:
        t.ok("a completion whose answer is lost is found out", f"put bucket/found {11 * MIB} 5")
    holds("  every byte is there", server.file("found").read_bytes() == made(5, 11 * MIB))

    server.file("stale").write_bytes(made(6, 11 * MIB))
    os.utime(server.file("stale"), (time.time() - 60,) * 2)
    gone = lambda n, method, target: "404" if method == "POST" and "uploadId" in target else None
    proxy = Proxy(server.at, gone)
    with Trial(proxy.url, part_size=5 * MIB) as t:
        answer, *_ = t(f"put bucket/stale {11 * MIB} 7")
        holds("an older object is not taken for it", "NoSuchUpload" in answer and not proxy.settled().open_parts,
              answer)

    changed = lambda n, method, target: server.file("e").write_bytes(made(2, 3 * MIB)) and None if n == 2 else None
    proxy = Proxy(server.at, changed)
    with Trial(proxy.url) as t:
        answer, *_ = t(f"get bucket/e {3 * MIB} 1 forward")
        holds("an object that changes while it is read is an error", "changed while it was read" in answer, answer)
    crumbs_of_bytes(server)
    with Trial("http://127.0.0.1:1", retries=1) as t:
        answer, *_ = t("list bucket")
        holds("no server there", answer.startswith("error") and "127.0.0.1" in answer and "endpoint" in answer, answer)


def crumbs_of_bytes(server):
    """A server that sends a byte at a time; the object is e of endings()."""
    crumbs = Proxy(server.at, lambda *_: "crumb")
    with Trial(crumbs.url, retries=1) as t:
        answer, *_ = t(f"get bucket/e {3 * MIB} 2 forward")
        holds("a server that sends a byte at a time is given up",
              "the server sends fewer than 1000 bytes a second (2 tries)" in answer and crumbs.count < 20,
              (answer, crumbs.count))
    server.file("e.tar").write_bytes(made(2, 3 * MIB))
    crumbs = Proxy(server.at, lambda *_: "crumb")
    process = subprocess.Popen([KINORA, "apply", "source/webdataset", "s3://bucket/e.tar", "--limit", "1"],
                               env=environment(AWS_ENDPOINT_URL_S3=crumbs.url),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while crumbs.count < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    holds("  and a run that is asked to stop waits for it no longer", process.returncode != 0 and "cancelled" in said,
          said)


def killed(server):
    size = 40 * MIB
    proxy = Proxy(server.at)
    proxy.delay = 0.15
    for moment in (2, 4, 6):
        t = Trial(proxy.url, part_size=5 * MIB, parallel=2)
        seen = len(proxy.log)
        t.start(f"put bucket/killed {size} 9")
        while len(proxy.log) < seen + moment:
            time.sleep(0.01)
        t.process.send_signal(signal.SIGKILL)
        t.process.wait()
        proxy.settled()
        with Trial(server.url) as look:
            holds(f"killed after {moment} requests: no object",
                  look("get bucket/killed 1 1 whole")[0].startswith("error") and not server.file("killed").exists())
    with Trial(server.url, part_size=5 * MIB) as t:
        t.ok("and a later run completes", f"put bucket/killed {size} 9")
    holds("  with every byte", server.file("killed").read_bytes() == made(9, size))


def kinora(*arguments, **more):
    done = subprocess.run([KINORA, "--log", "debug", *map(str, arguments)], capture_output=True, text=True,
                          env=environment(**more), timeout=600)
    said_by_all.append(done.stdout + done.stderr)
    return done


def toml(name, server_url, text):
    file = SCRATCH / f"{name}.toml"
    file.write_text(
        f'[run]\nname = "{name}"\nout = "{SCRATCH / name}"\n[storage.s3]\nendpoint = "{server_url}"\npart_size = "5 '
        f'MiB"\n{text}')
    return file


CURATE = """[[job]]
name = "clips"
kind = "curate"
input = [{input}]
stages = ["video.probe", "shots.content",
  {{ use = "clip.transcode", min_length = 0.5, min_frames = 1, edge_crop = 0.0 }}, "caption.describe"]
[[job]]
kind = "shard"
input = "clips"
shard = {{ use = "shard.webdataset", max_count = 3 }}
out = "s3://bucket/{out}"
"""


def tree(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in folder.rglob("*") if p.is_file()}


def runs(server):
    for video in ("bbb_A.mp4", "bbb_B.mp4"):
        server.file("videos").mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests/data" / video, server.file("videos") / video.replace("_", " +"))
    shutil.copy(ROOT / "tests/data/bbb_C.mp4", server.file("alone.mp4"))
    inputs = '"s3://bucket/videos/", "s3://bucket/alone.mp4"'
    file = toml("whole", server.url, CURATE.format(input=inputs, out="shards"))
    done = kinora("run", file)
    holds("videos come from s3:// and shards go there", done.returncode == 0, done.stderr[-3000:])
    local = {n: h
             for n, h in tree(SCRATCH / "whole/shard").items()
             if n.endswith((".tar", ".idx")) or n.startswith(".nv-meta")}
    holds("  each file of the dataset, and no other", local and tree(server.file("shards")) == local,
          (sorted(local), server.names()))
    clips = json.loads((SCRATCH / "whole/clips/summary.json").read_text())
    holds("  all inputs were used", clips["inputs"] == 3 and clips["failed"] == 0, clips)
    done = kinora("run", file)
    holds("a second run has nothing to do", done.returncode == 0 and done.stderr.count("already done") == 2,
          done.stderr[-2000:])
    proxy = Proxy(server.at, sometimes(5, 0.25, READ_FAULTS[:-1] + ["lost", "corrupt", "cut_upload", "500_after"]))
    file = toml("faulty", proxy.url, CURATE.format(input=inputs, out="faulty"))
    done = kinora("run", file)
    holds("the same through faults", done.returncode == 0, done.stderr[-3000:])
    holds(f"  gives the same bytes ({len(proxy.faults())} faults)",
          tree(server.file("faulty")) == local and len(proxy.faults()) > 5)
    shutil.copy(ROOT / "tests/data/bbb_D.mp4", server.file("videos") / "new.mp4")
    done = kinora("run", toml("whole", server.url, CURATE.format(input=inputs, out="shards")))
    holds("a new video in the folder is work to do",
          done.returncode == 0 and json.loads((SCRATCH / "whole/clips/summary.json").read_text())["inputs"] == 4,
          done.stderr[-2000:])
    mine = tree(server.file("shards"))
    holds("  and replaces this job's own shards", mine != local and any(n.endswith(".tar") for n in mine),
          done.stderr[-2000:])
    other = toml("other", server.url, CURATE.format(input='"s3://bucket/alone.mp4"', out="shards/"))
    done = kinora("run", other)
    holds("another run does not write over them",
          done.returncode == 1 and "s3://bucket/shards holds a dataset that job 'shard'" in done.stderr
          and "choose another out" in done.stderr and tree(server.file("shards")) == mine, done.stderr[-2000:])
    shutil.rmtree(server.file("shards"))
    done = kinora("run", other)
    holds("  until they are removed", done.returncode == 0 and tree(server.file("shards")) not in ({}, mine),
          done.stderr[-2000:])


FEW = ["tokenizer.steps=6", "tokenizer.frames=5", "tokenizer.height=32", "tokenizer.width=48", "latents.frames=5",
       "latents.height=32",
       "latents.width=48", "dit.steps=8", "dit.batch=2", "dit.validation_every=4", "dit.model.layers=2"]


def trains(server):
    """The quickstart's training, from its local shards and from their copy behind s3://, read through faults."""
    text = (ROOT / "configs/quickstart.toml").read_text().replace("../tests", str(ROOT / "tests"))
    jobs = {job.split('name = "')[1].split('"')[0]: "[[job]]" + job for job in text.split("[[job]]")[1:]}
    few = [a for s in FEW for a in ("--set", s)]
    local = toml("local", server.url,
                 jobs["clips"] + jobs["shards"] + 'out = "s3://bucket/train"\n' + jobs["tokenizer"] + jobs["latents"]
                 + jobs["dit"])
    done = kinora("run", local, *few)
    holds("a model is trained from local shards, which are copied to s3://", done.returncode == 0, done.stderr[-3000:])
    proxy = Proxy(server.at, sometimes(11, 0.25, READ_FAULTS))
    from_s3 = lambda job: job.replace('"shards"', '"s3://bucket/train"')
    remote = toml("remote", proxy.url, from_s3(jobs["tokenizer"]) + from_s3(jobs["latents"]) + jobs["dit"])
    remote.write_text(remote.read_text().replace("[storage.s3]",
                                                 "[storage.s3]\ntimeout = 2\nretries = 12\nread_ahead = \"1 MiB\""))
    done = kinora("run", remote, *few)
    holds(f"  and from there through faults ({len(proxy.faults())} of {proxy.count} requests)",
          done.returncode == 0 and len(proxy.faults()) > 3, done.stderr[-3000:])

    def losses(name, job):
        lines = [json.loads(line) for line in (SCRATCH / name / job / "metrics.jsonl").read_text().splitlines()]
        return [{k: v
                 for k, v in line.items() if "loss" in k or k in ("step", "validation", "gradient_norm", "weight_norm")}
                for line in lines]

    for job, steps in (("tokenizer", 6), ("dit", 8)):
        ours, theirs = losses("remote", job), losses("local", job)
        holds(f"  the losses of {job} are the same to the last digit", len(ours) >= steps and ours == theirs,
              (ours[:3], theirs[:3]))
    weights = [{p.name: hashlib.sha256(p.read_bytes()).hexdigest()
                for p in (SCRATCH / name / "dit").glob("weights*.safetensors")} for name in ("local", "remote")]
    holds("  and so are the weights", weights[0] == weights[1] and weights[0], weights)
    holds("  nothing is left on the server but the shards",
          tree(server.file("train")) == {n: h
                                         for n, h in tree(SCRATCH / "local/shards").items()
                                         if n in tree(server.file("train"))}
          and any(n.endswith(".tar") for n in tree(server.file("train"))), server.names())


def changes(server):
    """Videos that are listed one by one: a changed one is noticed, and a name is tried as a name before it is a
    pattern."""
    shutil.copy(ROOT / "tests/data/bbb_A.mp4", server.file("odd [1]?.mp4"))
    shutil.copy(ROOT / "tests/data/bbb_B.mp4", server.file("listed.mp4"))
    (SCRATCH / "videos.jsonl").write_text('{"url": "s3://bucket/listed.mp4", "key": "listed"}\n')
    text = (
        '[[job]]\nname = "clips"\nkind = "curate"\ninput = ["s3://bucket/odd [1]?.mp4", "videos.jsonl"]\nstages = '
        '["video.probe"]\n')
    file = toml("changes", server.url, text)
    items = lambda: {i["key"]: i
                     for i in map(json.loads, (SCRATCH / "changes/clips/items.jsonl").read_text().splitlines())}
    digest = lambda name: hashlib.sha256(server.file(name).read_bytes()).hexdigest()
    done = kinora("run", file)
    first = items() if done.returncode == 0 else {}
    holds("an object whose name looks like a pattern is found",
          len(first) == 2 and all(i["end"] == "kept" for i in first.values()), (done.stderr[-2000:], first))
    bytes_in = json.loads((SCRATCH / "changes/clips/summary.json").read_text())["bytes_in"]
    holds("the sizes of objects that were named one by one are known",
          bytes_in == sum(server.file(n).stat().st_size for n in ("odd [1]?.mp4", "listed.mp4")), bytes_in)
    done = kinora("run", file)
    holds("unchanged, nothing is done again", "already done" in done.stderr, done.stderr[-2000:])
    shutil.copy(ROOT / "tests/data/bbb_C.mp4", server.file("listed.mp4"))
    done = kinora("run", file)
    holds("a changed object is done again, the other is not",
          done.returncode == 0 and "1 of 2 inputs have ended" in done.stderr
          and items()["listed"]["facts"]["sha256"] == digest("listed.mp4") != first["listed"]["facts"]["sha256"],
          done.stderr[-2000:])
    whole = tree(SCRATCH / "changes/clips")
    toml("changes", "http://127.0.0.1:9", text)
    file.write_text(file.read_text().replace('part_size = "5 MiB"', 'part_size = "5 MiB"\nretries = 0'))
    done = kinora("run", file)
    holds("a listing that fails is named, and nothing is taken for changed",
          done.returncode == 1 and "job 'clips': its inputs cannot be listed" in done.stderr
          and "s3://bucket: cannot be listed" in done.stderr and "have changed" not in done.stderr
          and tree(SCRATCH / "changes/clips") == whole, done.stderr[-2000:])
    done = kinora("run", toml("changes", server.url, text), AWS_SECRET_ACCESS_KEY="no longer valid")
    holds("so is one that is refused", done.returncode == 1 and "its inputs cannot be listed" in done.stderr
          and "have changed" not in done.stderr and tree(SCRATCH / "changes/clips") == whole, done.stderr[-2000:])
    done = kinora("run", toml("changes", server.url, text))
    holds("when the server is back nothing is done again", done.returncode == 0 and "already done" in done.stderr,
          done.stderr[-2000:])
    named = toml("named", server.url, text.replace('"s3://bucket/odd [1]?.mp4", ', ""))
    done = kinora("run", named)
    there = (SCRATCH / "named/clips/items.jsonl").read_text() if done.returncode == 0 else done.stderr[-2000:]
    done = kinora("run", named, AWS_SECRET_ACCESS_KEY="no longer valid")
    holds("results of listed videos are kept if the server denies access", done.returncode == 0 and '"kept"' in there
          and (SCRATCH / "named/clips/items.jsonl").read_text() == there, done.stderr[-2000:])


def checks(server):
    bad = toml("bad", server.url,
               '[storage.s4]\n[[job]]\nkind = "curate"\ninput = ["s4://bucket/x", "s3://bucket/none/"]\nstages = '
               '["video.probe"]\n').read_text()
    for name, text, words in [("an unknown storage", bad, [":7:1", "s4"]),
                              ("an unknown option", bad.replace("part_size", "part_siz"),
                               [":6:1", "part_siz", "did you mean 'part_size'?"]),
                              ("a value out of range", bad.replace("5 MiB", "1 MiB"), [":6:13", "part_size"]),
                              ("an endpoint that is none", bad.replace(f'endpoint = "http', 'endpoint = "ftp'),
                               ["endpoint = ", "write the server's address"]),
                              ("an out that is not a URI",
                               bad + '[[job]]\nkind = "shard"\ninput = "curate"\nout = "shards"\n',
                               ["out: 'shards' is not a URI"])]:
        (SCRATCH / "bad.toml").write_text(text if "out =" in text and name.endswith("URI") else text)
        done = kinora("check", SCRATCH / "bad.toml")
        said = done.stderr + done.stdout
        if name == "an out that is not a URI":
            (SCRATCH / "bad.toml").write_text(text.replace("[storage.s4]\n", "").replace('"s4://bucket/x", ', ""))
            done = kinora("check", SCRATCH / "bad.toml")
            said = done.stderr + done.stdout
        holds(f"{name} is refused by check", done.returncode == 2 and all(w in said for w in words), said)
    fine = toml("fine", server.url, '[[job]]\nkind = "curate"\ninput = "s3://bucket/none/"\nstages = ["video.probe"]\n')
    holds("check asks no server", kinora("check", fine).returncode == 0)
    done = kinora("run", fine)
    holds("a missing folder is reported", done.returncode == 1 and "s3://bucket/none/" in done.stderr, done.stderr)
    done = kinora("run", fine, "--set", "storage.s3.endpoint=http://127.0.0.1:9", "--set", "storage.s3.retries=3")
    holds("an unreachable server is reported at the first try, once, with the place of its address",
          done.returncode == 1
          and done.stderr.count("trying again, 3 times at most") == 1 and "(4 tries)" in done.stderr
          and "endpoint in [storage.s3] or else AWS_ENDPOINT_URL_S3" in done.stderr
          and done.stderr.index("trying again") < done.stderr.index("(4 tries)"), done.stderr)
    done = kinora("check", fine, "--set", "storage.s3.region=eu-west-3", "--set", "storage.s3.retrys=3")
    holds("--set reaches a storage's options", done.returncode == 2 and "did you mean 'retries'?" in done.stderr,
          done.stderr)


def speed(server):
    """Not a test: reads 256 MiB from start to end, alternating with curl; run it by its name."""
    size = 256 * MIB
    server.file("large").write_bytes(made(1, 16 * MIB) * 16)
    curl = ["curl", "-s", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{KEY}:{SECRET}",
            f"{server.url}/bucket/large", "-o", "/dev/null"]
    seconds = {"curl": []}
    with Trial(server.url) as t:
        for _ in range(7):
            start = time.time()
            subprocess.run(curl, check=True)
            seconds["curl"].append(time.time() - start)
            for chunk in (64 << 10, MIB, 16 * MIB):
                answer, requests, _ = t(f"time bucket/large {chunk}")
                seconds.setdefault(f"reads of {chunk >> 10} KiB, {requests} requests",
                                   []).append(float(answer.split()[2]))
    for name, found in seconds.items():
        ratios = sorted(c / s for c, s in zip(seconds["curl"], found))
        print(json.dumps({"what": name, "mib_per_s": round(256 / sorted(found)[3]),
                          "curl": round(256 / sorted(seconds["curl"])[3]),
                          "of_curl": [round(r, 2) for r in (ratios[0], ratios[3], ratios[-1])]}))


CASES = [straight, certificates, names, keys, faults, endings, killed, checks, changes, runs, trains]

if __name__ == "__main__":
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    for case in [globals()[name] for name in sys.argv[5:]] or CASES:
        print(f"-- {case.__name__}", flush=True)
        start = time.time()
        etag = "" if case in (straight, faults, speed) else "MD5"  # the cases that need none are faster without
        server = s3_server.Server(SCRATCH, case.__name__, etag, tls=case is certificates)
        try:
            case(server)
        finally:
            server.stop()
        print(f"   {time.time() - start:.1f} s", flush=True)
    told = [s for text in said_by_all for s in (SECRET, KEY, "wrong-secret-9876", "token-5555") if s in text]
    holds("no key, secret or token was written anywhere", not told, told)
    logs = [p for p in SCRATCH.rglob("*") if p.suffix in (".log", ".json",
                                                          ".jsonl") and p.parent.parent != SCRATCH / ".aws"
            and SECRET.encode() in p.read_bytes()]
    holds("  nor into any file of a run", not [p for p in logs if p.name != "credentials"], logs)
    sys.exit(f"{len(failures)} failed: {failures}" if failures else 0)

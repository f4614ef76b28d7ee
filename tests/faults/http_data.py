#!/usr/bin/env python3
"""Shards of a web server: their order and samples are those of the local folder, resumed in the middle of a shard, from
a cache, and through faults of the server; and what cannot be read is said in one error that shows no password. usage:
http_data.py KINORA ROOT SCRATCH"""
import io, itertools, json, os, pathlib, random, re, shutil, signal, subprocess, sys, tarfile, time

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
sys.path += [str(ROOT / "tests/support"), str(ROOT / "packaging/wheel")]
os.environ["KINORA_PREFIX"] = str(pathlib.Path(KINORA).resolve().parents[1])
os.environ.setdefault("KINORA_TORCH", str(ROOT / ".deps/torch/torch"))
os.environ["HOME"] = str(SCRATCH)  # for .netrc
for name in [name for name in os.environ if "proxy" in name.lower()]:
    del os.environ[name]
import kinora
from http_server import Server

SITE, SHARDS, SAMPLES = SCRATCH / "site", SCRATCH / "site/data/shards", 3 * 20
DATA = {"shuffle": 16}


def run(*command, code=0):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, f"{command}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def make():
    """Shards that are several ranges long, one of them below another folder, with a name that a URL has to encode."""
    draw = random.Random(1)
    for name in ("a-0.tar", "a-1.tar", "more/one more.tar"):
        (SHARDS / name).parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(SHARDS / name, "w") as tar:
            for i in range(20):
                for field, data in (("txt", f"{name} {i}".encode()), ("bin", draw.randbytes(20_000))):
                    member = tarfile.TarInfo(f"{name[:-4].replace('/', '-')}-{i}.{field}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    run(KINORA, "data", "index", SHARDS)
    (SCRATCH / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nsea\n")


def order(name, path, *words, storage="", ranks=1, steps=12, code=0):
    """The keys of the slots that the steps take, or what was said."""
    file = SCRATCH / f"{name}.toml"
    file.write_text(
        f'[run]\nseed = 3\n{storage}[[job]]\nname = "latents"\nkind = "encode"\ninput = {{ path = "{path}", shuffle = '
        f'16 }}\ntokenizer = {{ use = "cosmos" }}\n'
                    'tokenizer_weights = "vocab.txt"\ntext_weights = "vocab.txt"\nwords = { use = "text.wordpiece", '
                    'vocab = "vocab.txt" }\ntext = { use = "minilm" }\n')
    said = run(KINORA, "data", "order", file, "latents", "--ranks", ranks, "--steps", steps, "--batch", 6, "--json",
               *words, code=code)
    return sum((json.loads(line)["keys"] for line in said.splitlines() if line.startswith("{")),
               []) if code == 0 else said


def samples(path, count, state=None, **more):
    """The next samples, and the loader's state and stats after them."""
    with kinora.load({"path": str(path), **DATA, **more}, 1, state=state, seed=3) as loader:
        taken = [(batch[0].key, bytes(batch[0]["txt"]), bytes(batch[0]["bin"]))
                 for batch in itertools.islice(loader, count)]
        state, stats = loader.state(), loader.stats()
    return taken, state, stats


def refusal(path, **more):
    try:
        samples(path, SAMPLES, **more)
    except kinora.Error as error:
        return str(error)
    raise AssertionError(f"{path} was read")


def check_same(server):
    """The order and the bytes of the local folder; a position that was saved there continues here, with other ranks, in
    the middle of a shard."""
    url = server.url + "/data/shards"
    whole = order("whole", SHARDS)
    assert sorted(whole[:SAMPLES]) == sorted(set(whole)) and len(set(whole)) == SAMPLES, whole
    first = order("first", SHARDS, "--save-state", SCRATCH / "at.json", steps=3)
    rest = order("rest", url, "--state", SCRATCH / "at.json", steps=9, ranks=2)
    assert first + rest == whole
    assert not any("index.json" in path and status == 200
                   for path, status, *_ in server.gets()), "the folder has no index.json"
    local, *_ = samples(SHARDS, 2 * SAMPLES)
    assert len({data for _, _, data in local}) == SAMPLES
    begun, state, _ = samples(url + "/", 25)
    assert begun == local[:25]
    taken, *_ = samples(server.url + "/moved/data/shards", 2 * SAMPLES - 25, state)
    assert taken == local[25:], "continued, and redirected"
    one, *_ = samples(url + "/more/one%20more.tar", 20)
    assert sorted(one) == sorted(sample for sample in local[:SAMPLES] if sample[0].startswith("more")), "of one shard"
    pattern, *_ = samples(url + "/a-{0..1}.tar", 40)
    assert sorted(pattern) == sorted(sample for sample in local[:SAMPLES] if sample[0].startswith("a-")), "of a pattern"
    return local, whole


def check_cache(server, local):
    """The second reader asks for sizes and times alone."""
    url, cache = server.url + "/data/shards", {"cache": str(SCRATCH / "cache")}
    server.forget()
    assert samples(url, SAMPLES, **cache)[0] == local[:SAMPLES]
    assert server.gets(".tar")
    server.forget()
    taken, _, stats = samples(url, SAMPLES, readers=0, **cache)
    assert taken == local[:SAMPLES] and stats["bytes"] == {url: 0} and stats["cache_hits"] >= SAMPLES, stats
    assert not server.gets(".tar"), server.gets(".tar")


def check_faults(local, whole):
    """A server that is out of order, that cuts answers and that falls silent costs time alone."""
    turns = {}

    def plan(_, method, path):
        turns[path] = turns.get(path, 0) + 1
        return {1: "cut", 7: "500"}.get(turns[path] % 12) if method == "GET" else None

    server = Server(SITE, plan)
    taken, _, stats = samples(server.url + "/data/shards", SAMPLES)
    assert taken == local[:SAMPLES] and stats["failed"] == 0, stats
    faults = [fault for *_, fault in server.gets(".tar")]
    assert faults.count("cut") >= 3 and faults.count("500") >= 3, faults
    for fault in ("stall", "drip"):
        slow = [fault]
        silent = Server(SITE, lambda _, method, path: slow.pop() if path.endswith("a-0.tar") and slow else None)
        assert order(fault, silent.url + "/data/shards", storage="[storage.http]\ntimeout = 1\n") == whole
        assert not slow


def check_slowness():
    """Each of its answers is a success with one byte of the range: given up after the tries. A run that is asked to
    stop waits no longer, also not for an answer that does not come."""
    def of_shard(fault):
        return Server(SITE, lambda _, method, path: fault if method == "GET" and path.endswith("a-0.tar") else None)

    crumbs = of_shard("crumb")
    keys = order("crumbs", crumbs.url + "/data/shards", storage="[storage.http]\nretries = 1\n")
    assert len(keys) == 72 and not any(key.startswith("a-0")
                                       for key in keys) and crumbs.count < 200, (keys, crumbs.count)
    for fault in ("crumb", "mute"):
        server = of_shard(fault)
        process = subprocess.Popen([KINORA, "apply", "source/webdataset", server.url + "/data/shards/a-0.tar",
                                    "--limit", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while server.count < 3 and fault == "crumb" or server.count < 1:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)
        server.ends.set()
        assert process.returncode != 0 and "cancelled" in said, (fault, process.returncode, said)


def check_endings(server):
    """What does not pass is one error, after as many requests as make sense."""
    url = server.url + "/data/shards"
    always = lambda name, what="": lambda _, method, path: name if what in path else None
    whole = Server(SITE, always("whole"))
    said = refusal(whole.url + "/data/shards")
    assert "the server sends only whole files, not ranges of them" in said and whole.count <= 4, (said, whole.count)
    changing = Server(SITE, lambda number, method,
                      path: "other" if path.endswith("a-0.tar") and len(changing.gets("a-0.tar")) > 1 else None)
    said = refusal(changing.url + "/data/shards", max_failed=0)
    assert "a-0.tar: cannot be read: it was changed while it was read" in said, said
    lost = Server(SITE, always("404", "a-1.tar"))
    said = refusal(lost.url + "/data/shards")
    assert (
        f"{lost.url}/data/shards/a-1.tar: missing, but {lost.url}/data/shards/.nv-meta/.info.json lists it; bring it "
        f"back, or leave it out with" in said), said
    moved = SHARDS / "a-1.tar"
    moved.rename(SCRATCH / "aside.tar")
    said = refusal(SHARDS)
    (SCRATCH / "aside.tar").rename(moved)
    lists = f"{SHARDS}/.nv-meta/.info.json lists it"
    assert f"{moved}: missing, but {lists}; bring it back, or leave it out with" in said, said
    denied = Server(SITE, always("403", "a-1.tar"))
    said = refusal(denied.url + "/data/shards")
    assert (f"{denied.url}/data/shards/a-1.tar: cannot be read: HTTP 403: access is denied" in said
            and ".netrc" in said), said
    down = Server(SITE, always("500"))
    said = order("down", down.url + "/data/shards", storage="[storage.http]\nretries = 1\n", code=1)
    assert "HTTP 500 (2 tries): check the network and the address" in said, said
    for plan in (None, always("denies")):
        bare = Server(SITE / "data", plan)
        said = refusal(bare.url + "/other")
        assert ("run `kinora data index` where they are and upload .nv-meta" if plan is None
                else "HTTP 403: access is denied, or there is no such file") in said, said
    said = refusal(server.url + "/ftp/shards")
    assert "the server redirects to an address that is not followed" in said, said


def check_identity(server):
    """A job's identity has the index of the folder, which stands for its shards; a folder without one is refused before
    anything runs."""
    def dry(path, code=0):
        (SCRATCH / "identity.toml").write_text(
            f'[run]\nout = "out"\n[[job]]\nname = "tokenizer"\nkind = "train-tokenizer"\ninput = '
            f'"{server.url}{path}"\ntokenizer = {{ use = "cosmos" }}\n'
                                               'frames = 9\nheight = 64\nwidth = 96\n')
        return run(KINORA, "run", SCRATCH / "identity.toml", "--dry-run", code=code)

    server.forget()
    dry("/data/shards")
    assert [entry[:3]
            for entry in server.log
            if not entry[1].startswith("/ftp")] == [("HEAD", "/data/shards/.nv-meta/.info.json", 200)], server.log
    server.forget()
    dry("/data/shards/a-{0..1}.tar")
    assert [entry[:3] for entry in server.log] == [("HEAD", f"/data/shards/a-{i}.tar", 200) for i in (0, 1)], server.log
    assert "a web server does not list its folders; for shards, run `kinora data index`" in dry("/data/none", code=1)


def check_secrets(server):
    """A password belongs into ~/.netrc; in an address it is refused, and nothing shows it."""
    host = server.url.removeprefix("http://")
    for path in (f"http://me:hush@{host}/private/data/shards", f"http://{host}/data/shards?key=hush"):
        for said in (refusal(path), order("secret", path, code=2), run(KINORA, "data", "inspect", path, code=2)):
            assert "hush" not in said and "logs would show" in said and host in said, said
    assert "HTTP 401: access is denied" in refusal(server.url + "/private/data/shards")
    (SCRATCH / ".netrc").write_text("machine 127.0.0.1 login me password hush\n")
    assert len(samples(server.url + "/private/data/shards", 3)[0]) == 3
    stranger = Server(SITE)
    stranger.other = server.url
    assert len(samples(stranger.url + "/elsewhere/data/shards", 3)[0]) == 3
    assert "HTTP 401: access is denied" in refusal(stranger.url + "/elsewhere/private/data/shards"), (
        "another server chose where the password went")
    (SCRATCH / ".netrc").unlink()


def check_certificate(whole):
    server = Server(SITE, tls=SCRATCH)
    said = order("untrusted", server.url + "/data/shards", code=2)
    assert ("the server's certificate is not trusted; "
            "name its authority's file by ca_file in [storage.https]") in said, said
    trusted = f'[storage.https]\nca_file = "{server.certificate}"\n'
    assert order("trusted", server.url + "/data/shards", storage=trusted) == whole


def check_commands(server):
    url = server.url + "/data/shards"
    counted = re.compile(r"^3 shards, 60 samples, .*, 0 problems in 0 shards$", re.M)
    local, remote = run(KINORA, "data", "verify", SHARDS), run(KINORA, "data", "verify", url)
    assert counted.search(local)[0] == counted.search(remote)[0] and "a web server is only read" in remote, remote
    assert "1 shard, 20 samples" in run(KINORA, "data", "verify", url + "/a-0.tar")
    overviews = [json.loads(run(KINORA, "data", "inspect", path, "--json")) for path in (SHARDS, url)]
    assert overviews[1].pop("index").startswith("there") and overviews[0].pop("index") == "current" and overviews[
        0] == overviews[1], overviews
    run(KINORA, "data", "preview", url, "--out", SCRATCH / "page.html")
    assert all(f"more-one more-{i}" in (SCRATCH / "page.html").read_text() for i in (0, 1))
    assert "a web server is only read; run it where the shards are, and upload .nv-meta" in run(
        KINORA, "data", "index", url, code=2)
    (SHARDS / "a-0.tar").rename(SCRATCH / "aside.tar")
    said = run(KINORA, "data", "verify", url, code=1)
    (SCRATCH / "aside.tar").rename(SHARDS / "a-0.tar")
    assert "names a-0.tar, which is not there" in said, said


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    make()
    server = Server(SITE)
    local, whole = check_same(server)
    print("ok    same", flush=True)
    check_cache(server, local)
    print("ok    cache", flush=True)
    check_faults(local, whole)
    print("ok    faults", flush=True)
    check_slowness()
    print("ok    slowness", flush=True)
    check_endings(server)
    print("ok    endings", flush=True)
    check_identity(server)
    print("ok    identity", flush=True)
    check_secrets(server)
    print("ok    secrets", flush=True)
    check_certificate(whole)
    print("ok    certificate", flush=True)
    check_commands(server)
    print("ok    commands", flush=True)


main()

#!/usr/bin/env python3
"""Conditional writes and the flat listing of storage/s3 against a server whose answers are asked again, lost or wrong.
usage: s3_conditions.py S3_TRIAL KINORA ROOT SCRATCH"""
import json, pathlib, shutil, subprocess, sys

TRIAL, KINORA, ROOT, SCRATCH = *sys.argv[1:3], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
sys.path.insert(0, str(ROOT / "tests/support"))
import s3_server
from conditional_s3 import Server, etag


class Trial:
    def __init__(self, server, **options):
        self.process = subprocess.Popen(
            [TRIAL, json.dumps({"endpoint": server.url, "anonymous": True, "retries": 4, **options})],
            env=s3_server.environment(SCRATCH), encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, line):
        """The answer, without the numbers of requests."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rpartition(" | ")[0]

    def most_memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def check_conditions():
    server = Server()
    with Trial(server) as t:
        one = t("put_if bucket/a one")
        assert one == "ok " + etag(b"one"), one
        assert t("put_if bucket/a two") == "ok conflict", "it exists"
        assert t(f"put_if bucket/a two {etag(b'other')}") == "ok conflict", "another tag"
        assert t(f"put_if bucket/none two {etag(b'one')}") == "ok conflict", "there is none"
        two = t(f"put_if bucket/a two {etag(b'one')}")
        assert two == "ok " + etag(b"two") and server.objects["a"] == b"two", two
        assert t("read_small bucket/a") == f"ok {etag(b'two')} two"
        assert "no such object" in t("read_small bucket/none")
        assert t(f"remove_if bucket/a {etag(b'one')}") == "ok conflict" and "a" in server.objects
        assert t(f"remove_if bucket/a {etag(b'two')}") == "ok " and "a" not in server.objects
    server.stop()


def check_answers_that_go_wrong():
    """409 and 500 are asked again; a lost answer is no conflict with the own bytes, but one with another's."""
    server = Server()
    with Trial(server) as t:
        for n, faults in enumerate((["409"], ["500", "409"], ["lost"], ["lost", "409"])):
            server.faults = list(faults)
            made = t(f"put_if bucket/b{n} mine")
            assert made == "ok " + etag(b"mine") and not server.faults, (faults, made)
        server.faults = ["lost"]
        assert t(f"put_if bucket/b0 again {etag(b'mine')}") == "ok " + etag(b"again")
        server.faults = ["409"]
        assert t(f"put_if bucket/b0 late {etag(b'mine')}") == "ok conflict" and server.objects["b0"] == b"again"
    server.stop()


def check_servers_that_ignore_conditions():
    """What a probe sees of them: the second writer is not refused."""
    for ignores, second in (("create", "put_if bucket/c two"), ("replace", f'put_if bucket/c two {etag(b"old")}')):
        server = Server(ignores)
        with Trial(server) as t:
            t("put_if bucket/c one")
            assert t(second) == "ok " + etag(b"two"), ignores
        server.stop()


def check_listing():
    server = Server(many=200_000)
    names = ["a-b", "a/x", "a/y z", "a0", "b/é"]
    server.objects = {f"d/{name}": b"1" for name in names} | {"d/": b"", "e": b"1"}
    with Trial(server) as t:
        assert json.loads(t("list_from bucket/d 100")[3:]) == names
        assert json.loads(t("list_from bucket/d 2")[3:]) == names[:2], "without the folder's own object"
        assert json.loads(t("list_from bucket/d 2 a/x")[3:]) == names[2:4]
        assert t("list_from bucket/nothing 5") == "ok []"
        before = t.most_memory()
        assert t("count bucket/many") == "ok 200000"
        assert server.pages < 210, server.pages
        # A name of each key would take more.
        assert t.most_memory() - before < 20e6, (before, t.most_memory())
    server.stop()


def videos_of(name, input, more=""):
    """The videos of a curate job in the order in which it lists them."""
    out, file = SCRATCH / name, SCRATCH / f"{name}.toml"
    file.write_text(f'''[run]
out = "{out}"
{more}
[[job]]
name = "clips"
kind = "curate"
input = "{input}"
recursive = true
stages = ["video.probe"]
''')
    done = subprocess.run([KINORA, "run", str(file)], env=s3_server.environment(SCRATCH), capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done
    assert "1 file or folder whose name begins with a dot is skipped" in done.stderr, done.stderr
    items = [json.loads(line) for line in (out / "clips/items.jsonl").read_text().splitlines()]
    return [item["url"].split("/films/")[1] for item in items]


def check_inputs():
    """The flat listing of a bucket gives a job the videos that folder after folder give, in the same order."""
    video = (ROOT / "tests/data/bbb_D.mp4").read_bytes()
    names = ["a/b/z.mp4", "a/x.mp4", "a-b.mp4", "a0.mp4", ".git/c.mp4", ".git/d/e.mp4", "notes.txt"]
    server = Server()
    server.objects = {f"films/{name}": video for name in names} | {"films/a/": b""}
    for name in names:
        file = SCRATCH / "films" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(video)
    storage = f'[storage.s3]\nendpoint = "{server.url}"\nanonymous = true\n'
    assert videos_of("bucket", "s3://bucket/films/", storage) == names[:4]
    assert server.pages <= 2, server.pages
    assert videos_of("folder", SCRATCH / "films/") == names[:4]
    server.stop()


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for check in (check_conditions, check_answers_that_go_wrong, check_servers_that_ignore_conditions, check_listing,
              check_inputs):
    check()
    print("ok   ", check.__name__, flush=True)

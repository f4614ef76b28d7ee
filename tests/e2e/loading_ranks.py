#!/usr/bin/env python3
"""A training fed by a blend of shards, one clip of which is no video, continues at other numbers of ranks, after kill
-9 and after Ctrl-C, with the losses, gradient norms and weights of one uninterrupted process: batches of one size,
packed rows and buckets. usage: loading_ranks.py KINORA ROOT SCRATCH"""
import io, json, os, pathlib, re, shutil, signal, subprocess, sys, tarfile, time

import numpy as np
import safetensors.numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import quick

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
STEPS, BATCH = 12, 4
# In float64, whose rounding differs with the order of sums: the bounds are those of the other tests of ranks. A smaller
# eps would show it in the weights.
RUN = """[run]
seed = 1
out = "{out}"
[[job]]
name = "latents"
kind = "encode"
input = {{ blend = [{{ path = "{shards}/a", weight = 2 }}, {{ path = "{shards}/b" }}], shuffle = 3 }}
tokenizer = {tokenizer}
tokenizer_weights = "{weights}"
scale_windows = 4
frames = 5
every = 1
height = 32
width = 48
sizes = {sizes}
words = {{ use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }}
text = {{ use = "minilm" }}
[[job]]
name = "dit"
kind = "train"
input = "latents"
model = {{ use = "dit", in_channels = 32, out_channels = 32, patch_space = 1, text_size = 384, layers = 1, \
  heads = 1, head_size = 24 }}
loss = {{ use = "flow" }}
optimizer = {{ use = "adamw", eps = 1e-4 }}
precision = "fp64"
parallel = ["ddp"]
batches = "{batches}"
accumulate = {accumulate}
steps = {steps}
batch = {batch}
learning_rate = 0.01
warmup = 0
threads = 1
checkpoint_every = 2
async_checkpoints = false
log_every = 1
tensorboard = false
validation_every = 0
sample_every = 0
"""


def write_shards():
    """Two sets: videos, one of them no video, and videos next to pictures."""
    made = SCRATCH / "made"
    made.mkdir()
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=48x32:rate=8:duration=16", "-c:v",
                    "mpeg4", "-g", "8", "-f", "segment", "-segment_time", "2",
                    "-reset_timestamps", "1", made / "video%d.mp4"], check=True)
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=48x48:rate=1:duration=4",
                    "-start_number", "0", made / "picture%d.png"], check=True)
    (made / "video3.mp4").write_bytes(b"x" * 5000)
    videos = [f"video{i}.mp4" for i in range(8)]
    for name, shards in {"a": [videos[:3], videos[3:5]],
                         "b": [["video5.mp4", "picture0.png", "picture1.png"],
                               ["picture2.png", "video6.mp4", "picture3.png", "video7.mp4"]]}.items():
        (SCRATCH / name).mkdir()
        for number, files in enumerate(shards):
            with tarfile.open(SCRATCH / name / f"shard-{number}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
                for file in files:
                    key, ending = file.split(".")
                    for field, data in ((ending, (made / file).read_bytes()), ("txt", f"a {key} of a test".encode())):
                        member = tarfile.TarInfo(f"{key}.{field}")
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))


def tokenizer():
    """The quickstart's tokenizer, with small settings, as a component and a file of weights."""
    folder = quick.begun(KINORA, ROOT, SCRATCH / "tokenizer", ["tokenizer"])
    job = next(job for job in (ROOT / "configs/quickstart.toml").read_text().split("[[job]]")
               if 'name = "tokenizer"' in job)
    return next(line for line in job.splitlines()
                if line.startswith("tokenizer =")).split("=", 1)[1], folder / "tokenizer/weights.safetensors"


class Training:
    """A run file, and the parts in which it runs."""

    def __init__(self, name, batches, like=None):
        self.out, self.file = SCRATCH / f"{batches}-{name}", SCRATCH / f"{batches}-{name}.toml"
        component, weights = TOKENIZER
        several = batches != "plain"
        self.file.write_text(RUN.format(out=self.out, shards=SCRATCH, tokenizer=component, weights=weights,
                                        sizes='["1x48x48"]' if several else "[]",
                                        batches=batches if several else "packed", accumulate=2 if several else 1,
                                        steps=STEPS, batch=BATCH))
        if like:  # its encode job has measured the same latents
            shutil.copytree(like.out / "latents", self.out / "latents")

    def start(self, ranks):
        launch = ["launch", "-n", str(ranks), "--"] if ranks > 1 else []
        return subprocess.Popen([KINORA, *launch, "run", str(self.file)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def checkpoint(self):
        """The step of the last one, 0 if there is none."""
        return max((int(state.parent.name.split("-")[1])
                    for state in self.out.glob("dit/checkpoints/step-*/state.json")), default=0)

    def interrupt(self, ranks, how):
        """Runs it until it has written a checkpoint, and ends it."""
        before = self.checkpoint()
        process = self.start(ranks)
        end = time.monotonic() + 120
        while self.checkpoint() == before and process.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        process.send_signal(how)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130), (process.returncode, said)
        self.check_log(said, ranks, before)
        assert before < self.checkpoint() < STEPS, (before, self.checkpoint(), said)

    def finish(self, ranks):
        before = self.checkpoint()
        process = self.start(ranks)
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said
        self.check_log(said, ranks, before)

    def check_log(self, said, ranks, before):
        assert re.findall(r"dit: resuming after step (\d+)", said) == ([str(before)] if before else []), (before, said)
        assert ("dit: 2 ranks, mesh dp=2" in said) == (ranks == 2), said

    def failed(self):
        return json.loads((self.out / "dit/summary.json").read_text())["failed"]

    def result(self):
        """Losses and norms of every step, once each; the weights."""
        lines = [json.loads(line) for line in (self.out / "dit/metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines] == list(range(1, STEPS + 1)), lines
        return [[line["loss"], line["gradient_norm"]]
                for line in lines], safetensors.numpy.load_file(self.out / "dit/weights.safetensors")


def uninterrupted(batches):
    whole = Training("whole", batches)
    whole.finish(1)
    assert whole.failed() == 1
    return whole


def check(batches, whole, *parts, last):
    """parts: (ranks, signal) of each part but the last, which has `last` ranks."""
    parted = Training("parted", batches, whole)
    for ranks, how in parts:
        parted.interrupt(ranks, how)
    parted.finish(last)
    (numbers, weights), (want, expected) = parted.result(), whole.result()
    assert len({loss for loss, _ in want}) == STEPS and np.allclose(numbers, want, rtol=1e-10, atol=0), (numbers, want)
    gaps = {name: float(np.abs(weights[name] - tensor).max() / np.abs(tensor).max())
            for name, tensor in expected.items()}
    assert weights.keys() == expected.keys() and max(gaps.values()) < 1e-10, gaps
    assert parted.failed() == 1, (
        "a sample that several parts or ranks met counts once, also if the last part has not met it")
    print(f"ok    {batches}", flush=True)


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
write_shards()
TOKENIZER = tokenizer()
check("plain", uninterrupted("plain"), (2, signal.SIGKILL), (1, signal.SIGINT), last=2)
# a step has the same samples however they are divided, and each the loss that it would have alone
several = uninterrupted("packed")
check("packed", several, (1, signal.SIGKILL), last=2)
check("buckets", several, (2, signal.SIGINT), last=1)

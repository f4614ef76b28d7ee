"""A `kinora serve` of a tiny pipeline, and clients of it: plain HTTP, a viewer of a live session. Reads the arguments
of the test that imports it: KINORA ROOT SCRATCH."""
import contextlib, http.client, json, os, pathlib, signal, socket, struct, subprocess, sys, time, uuid

KINORA, ROOT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
PIPELINE = ROOT / "tests/data/oracle/wan_t2v"
TOKEN = "a-token-of-the-test-0123456789"
READ_TOKEN = "a-token-that-only-reads-012345"
TOKENS = {"KINORA_SERVE_TOKEN": TOKEN, "KINORA_SERVE_READ_TOKEN": READ_TOKEN}
# Chunk by chunk, so that a video grows.
SETS = ["teacher_forcing=true", "chunk=1", "height=16", "width=16", "fps=8.0", "frames=9", "steps=2", "guidance=1.0"]
WHAT = ["--pipeline", PIPELINE, *(word for one in SETS for word in ("--set", one))]


class Server:
    def __init__(self, folder, what=WHAT):
        self.process = subprocess.Popen(
            [KINORA, "serve", *what, "--port", "0", "--json", "--folder", SCRATCH / folder],
            stdout=subprocess.PIPE, stderr=open(SCRATCH / f"{folder}.log", "a"), text=True,
            env=os.environ | TOKENS)
        line = self.process.stdout.readline()
        assert line, (SCRATCH / f"{folder}.log").read_text()
        about = json.loads(line)
        assert about["token"] == TOKEN and about["url"].startswith("http://127.0.0.1:"), about
        self.url, self.port = about["url"], int(about["url"].rsplit(":", 1)[1].strip("/"))

    def ask(self, method, path, body=None, headers=None, token=TOKEN):
        """Status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            headers = dict(headers or {})
            if token:
                headers["Authorization"] = "Bearer " + token
            if isinstance(body, dict):
                body, headers["Content-Type"] = json.dumps(body), "application/json"
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def json(self, method, path, body=None, status=200, **more):
        code, _, said = self.ask(method, path, body, **more)
        assert code == status, (method, path, code, said)
        return json.loads(said)

    def create(self, **fields):
        return self.json("POST", "/v1/videos", fields)

    def wait(self, id, seconds=60):
        """The object when it is completed or failed; its progress never falls."""
        until, before = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            video = self.json("GET", f"/v1/videos/{id}")
            assert before <= video["progress"] <= 100, (before, video)
            before = video["progress"]
            if video["status"] in ("completed", "failed"):
                assert (video["progress"] == 100) == (video["status"] == "completed"), video
                return video
            assert video["progress"] <= 99 and (video["status"] != "queued" or video["progress"] == 0), video
            time.sleep(0.05)
        raise AssertionError(f"{id} is not completed: {video}")

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(60)
        return self.process.returncode


class Viewer:
    """A live session: a WebSocket (RFC 6455) to /v1/realtime/video, with the token as a browser sends it."""

    def __init__(self, server, token=TOKEN):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.arrived = b""
        self.socket.sendall((f"GET /v1/realtime/video HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                             "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                             f"Origin: http://127.0.0.1:{server.port}\r\nSec-WebSocket-Protocol: kinora.{token}\r\n"
                             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.arrived:
            self.arrived += self.received()
        head, self.arrived = self.arrived.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])

    def received(self):
        got = self.socket.recv(65536)
        assert got, "the server ended the connection"
        return got

    def take(self, count):
        while len(self.arrived) < count:
            self.arrived += self.received()
        out, self.arrived = self.arrived[:count], self.arrived[count:]
        return out

    def send(self, kind, message):
        mask = os.urandom(4)
        size = len(message)
        length = struct.pack("!B", 128 | size) if size < 126 else struct.pack("!BH", 254, size)
        self.socket.sendall(bytes([128 | kind]) + length + mask +
                            bytes(byte ^ mask[i % 4] for i, byte in enumerate(message)))

    def say(self, type, **members):
        self.send(1, json.dumps({"type": type, **members}).encode())

    def frame(self):
        """A text as what it says, or bytes."""
        while True:
            kind, size = self.take(2)
            if size >= 126:
                size = int.from_bytes(self.take(2 if size == 126 else 8), "big")
            message = self.take(size)
            if kind & 15 in (1, 2):
                return json.loads(message) if kind & 15 == 1 else message
            assert kind & 15 == 9, (kind, message)  # a ping
            self.send(10, message)

    def next(self, type):
        """The next message, which must be of this type."""
        message = self.frame()
        assert isinstance(message, dict) and message["type"] == type, message
        return message

    def watch(self, after=lambda chunk: None):
        """Calls after() with what is said of each chunk. The bytes of the video, these chunks, and session.done."""
        video, chunks = b"", []
        while True:
            message = self.frame()
            if message["type"] == "session.done":
                return video, chunks, message
            assert message["type"] in ("video.start", "session.interaction.queued", "video.chunk_metadata"), message
            if message["type"] == "video.start":
                assert message["mime"].startswith("video/mp4; codecs=") and message["width"] == 16, message
            if message["type"] != "video.chunk_metadata":
                continue
            part = self.frame()
            assert len(part) == message["byte_length"], message
            video += part
            if message["kind"] == "init":
                assert part[4:8] == b"ftyp" and not chunks
            else:
                assert part[4:8] == b"moof"
                chunks.append(message)
                after(message)


def form(fields, files=()):
    """A body of multipart/form-data and its type."""
    border = uuid.uuid4().hex
    out = b""
    for name, value in fields.items():
        out += f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    for name, file in files:
        out += (f'--{border}\r\nContent-Disposition: form-data; name="{name}"; filename="{file.name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n").encode() + file.read_bytes() + b"\r\n"
    return out + f"--{border}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={border}"}


def frames(video):
    """The digest of each frame of the bytes of a video."""
    done = subprocess.run(["ffmpeg", "-v", "error", "-i", "-", "-f", "framemd5", "-"], input=video, capture_output=True)
    assert done.returncode == 0, done.stderr
    return [line.split(",")[-1].strip() for line in done.stdout.decode().splitlines() if not line.startswith("#")]


def size(picture):
    """Width and height."""
    done = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "stream=width,height", "-of", "csv=p=0", "-"],
                          input=picture, capture_output=True)
    assert done.returncode == 0, done.stderr
    return tuple(int(n) for n in done.stdout.decode().strip().strip(",").split(","))


def settings(name, of_model="", sets=SETS, **more):
    """A file for `kinora serve`."""
    sets = ", ".join(one.replace("=", " = ") for one in sets)
    lines = [f"{key} = {json.dumps(value)}" for key, value in more.items()]
    models = f'models = [{{ name = "wan_t2v", pipeline = "{PIPELINE}", set = {{ {sets} }}{of_model} }}]'
    file = SCRATCH / name
    file.write_text("\n".join(["[serve]", *lines, models, ""]))
    return file


def made(server, **fields):
    """The bytes of a video."""
    id = server.create(**fields)["id"]
    assert (video := server.wait(id))["status"] == "completed", video
    return server.ask("GET", f"/v1/videos/{id}/content")[2]


def refused(arguments, *words, code=2, **environment):
    done = subprocess.run([KINORA, "serve", *arguments], capture_output=True, text=True, timeout=60,
                          env=os.environ | TOKENS | environment)
    assert done.returncode == code and all(word in done.stderr for word in words), done

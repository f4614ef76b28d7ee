"""An OpenAI-compatible server for tests, on loopback. It checks every request against the types of OpenAI's Python
client, answers by a known rule, and can misbehave: plan(request) -> None (answer) or the name of a fault."""
import base64, collections, hashlib, json, math, select, socket, ssl, struct, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np
from openai.types import CreateEmbeddingResponse, EmbeddingCreateParams
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

CHAT, EMBEDDINGS = TypeAdapter(CompletionCreateParamsNonStreaming), TypeAdapter(EmbeddingCreateParams)
# vLLM and OpenAI accept these; the types would ignore any other field, which is refused here.
KNOWN = {"model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "response_format", "top_p"}


def force(x):
    """The whole value: pydantic checks the elements of an Iterable only on iteration."""
    if isinstance(x, dict):
        return {k: force(v) for k, v in x.items()}
    return x if isinstance(x, (str, int, float, bool, type(None))) else [force(y) for y in x]


def pictures_of(body):
    """The pictures of a chat request, decoded."""
    out = []
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else []:
            if part["type"] == "image_url":
                head, data = part["image_url"]["url"].split(",", 1)
                assert head == "data:image/jpeg;base64", head
                picture = cv2.imdecode(np.frombuffer(base64.b64decode(data, validate=True), np.uint8), cv2.IMREAD_COLOR)
                assert picture is not None
                out.append(picture)
    return out


def text_of(body):
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(p["text"] for p in content if p["type"] == "text")


def vector_of(fingerprint):
    """Eight numbers derived from the request."""
    return [b / 16 - 8 for b in bytes.fromhex(fingerprint)[:8]]


class Request:
    def __init__(self, path, headers, raw):
        self.path, self.headers, self.at = path, headers, time.monotonic()
        self.body = json.loads(raw)
        self.fingerprint = hashlib.sha256(raw).hexdigest()
        self.pictures = []


def answer(request):
    """A good server's answer: text derived from the request, in the requested form."""
    if request.path.endswith("/embeddings"):
        return {"object": "list", "model": request.body["model"], "usage": {"prompt_tokens": 7, "total_tokens": 7},
                "data": [{"object": "embedding", "index": 0, "embedding": vector_of(request.fingerprint)}]}
    asked = request.body.get("response_format", {}).get("json_schema", {}).get("name")
    text = "caption " + request.fingerprint[:12]
    if asked == "verdict":
        text = json.dumps({"keep": int(request.fingerprint[0], 16) % 2 == 0,
                           "reason": "because of " + request.fingerprint[:6], "labels": ["Film"]})
    if asked == "regions":
        text = "```json\n" + json.dumps(
            {"regions": [{"text": "TITLE", "box": [0, 0, 1000, int(request.fingerprint[:2], 16)]}]}) + "\n```"
    if not request.pictures:
        text = "better " + text_of(request.body).rsplit("\n", 1)[-1]
    return chat(text)


def chat(text, reason="stop", **message):
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": reason, "logprobs": None,
                         "message": {"role": "assistant", "content": text, "refusal": None, **message}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}}


class ModelServer:
    def __init__(self, plan=lambda request: None, reply=answer, delay=0.0, certificate=None, port=0):
        self.plan, self.reply, self.delay = plan, reply, delay
        self.requests, self.problems, self.sent_of_huge = [], [], 0
        self.answered = collections.Counter()  # complete answers delivered, by fingerprint
        self.inside = self.most_inside = self.connections = 0
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def setup(self):
                super().setup()
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with owner.lock:
                    owner.connections += 1

            def do_GET(self):
                owner.problems.append("GET " + self.path)
                self.send_error(405)

            def do_POST(self):
                owner.handle(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # clients that disconnected
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()

    def handle(self, http):
        request = Request(http.path, dict(http.headers), http.rfile.read(int(http.headers["Content-Length"])))
        with self.lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            self.requests.append(request)
        try:
            self.check(request)
            fault = self.plan(request)
            if self.delay:
                time.sleep(self.delay)
            if fault is None:
                said = self.reply(request)  # bytes: an answer that no type of OpenAI's describes
                self.send(http, 200, said if isinstance(said, bytes) else json.dumps(self.checked(said)).encode(),
                          request)
            else:
                getattr(self, fault)(http, request)
        except AssertionError as e:
            self.problems.append(f"{request.path}: {e!r}")
            self.send(http, 400, b'{"error":{"message":"the test refuses"}}')
        except Exception as e:  # also for a value that does not match OpenAI's types
            if not isinstance(e, OSError):
                self.problems.append(f"{request.path}: {e!r}"[:600])
            raise
        finally:
            with self.lock:
                self.inside -= 1

    def check(self, request):
        assert request.headers.get("Content-Type") == "application/json", request.headers
        assert request.headers.get("Expect") is None
        if request.path.endswith("/embeddings"):
            force(EMBEDDINGS.validate_python(request.body))
            assert set(request.body) <= {"model", "input", "encoding_format", "dimensions"}, set(request.body)
        else:
            assert request.path.endswith("/chat/completions"), request.path
            force(CHAT.validate_python(request.body))
            assert set(request.body) <= KNOWN, set(request.body)
            request.pictures = pictures_of(request.body)

    @staticmethod
    def checked(reply):
        """Checks that this server's own answers match OpenAI's types too."""
        (CreateEmbeddingResponse if "data" in reply else ChatCompletion).model_validate(reply, strict=True)
        return reply

    def send(self, http, status, body, request=None, **headers):
        gone = bool(select.select([http.connection], [], [], 0)[0])  # a waiting client sends nothing
        http.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            http.send_header(name.replace("_", "-"), value)
        http.end_headers()
        http.wfile.write(body)
        if request and status == 200 and not gone:
            with self.lock:
                self.answered[request.fingerprint] += 1

    # Faults.
    def too_many(self, http, request):
        request.paused = time.monotonic()
        self.send(http, 429, b'{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}',
                  Retry_After="1")

    def no_money(self, http, _):
        self.send(http, 429, b'{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}')

    def long_wait(self, http, _):
        self.send(http, 429, b"{}", Retry_After="86400")

    def broken(self, http, _):
        self.send(http, 500, b"internal error")

    def unavailable(self, http, _):
        self.send(http, 503, b"<html>" + b"x" * 5000 + b"</html>", Content_Type="text/html")

    def slow(self, http, request):
        self.stopping.wait(2.5)
        self.send(http, 200, json.dumps(self.reply(request)).encode(), request)

    def never(self, http, request):
        self.stopping.wait()

    def cut(self, http, request):
        whole = json.dumps(self.reply(request)).encode()
        http.send_response(200)
        http.send_header("Content-Length", str(len(whole)))
        http.end_headers()
        http.wfile.write(whole[:len(whole) // 2])
        http.wfile.flush()
        http.close_connection = True

    def reset(self, http, _):
        http.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        http.close_connection = True
        http.connection.close()

    def no_json(self, http, _):
        self.send(http, 200, b"<html>It works!</html>")

    def no_choices(self, http, _):
        self.send(http, 200, b'{"foo": 1}')

    def no_model(self, http, request):
        self.send(http, 404,
                  json.dumps({"error": {"message": f"The model `{request.body['model']}` does not exist.",
                                        "type": "NotFoundError"}}).encode())

    def invalid_model(self, http, request):
        self.send(http, 400,
                  json.dumps({"error": {"message": f"{request.body['model']} is not a valid model ID"}}).encode())

    def no_page(self, http, _):
        self.send(http, 404, b'{"detail": "Not Found"}')

    def half_json(self, http, request):
        self.send(http, 200, json.dumps(self.reply(request)).encode()[:-10])

    def huge(self, http, _):
        http.send_response(200)
        http.end_headers()
        http.close_connection = True
        for _ in range(1024):
            http.wfile.write(b" " * (1 << 20))
            self.sent_of_huge += 1 << 20

    def endless_headers(self, http, _):
        http.close_connection = True
        http.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for i in range(1 << 20):
            line = b"X-%d: %s\r\n" % (i, b"x" * 1000)
            http.wfile.write(line)
            self.sent_of_huge += len(line)

    def elsewhere(self, http, _):
        self.send(http, 302, b"", Location=f"http://127.0.0.1:{self.port}/v1/elsewhere/chat/completions")

    def bad_request(self, http, request):
        told = {
            "error": {"message": "This model's maximum context length is 8192 tokens. Header was "
                      + request.headers.get("Authorization", "none") + " " + "y" * 400}}
        self.send(http, 400, json.dumps(told).encode())

    def forbidden(self, http, request):
        key = request.headers.get("Authorization", "Bearer none").split()[1]
        self.send(http, 403, json.dumps({"error": {"message": f"Key {key} has no access."}}).encode())

    def bad_key(self, http, request):
        key = request.headers.get("Authorization", "Bearer none").split()[1]
        told = {"error": {"message": f"Incorrect API key provided: {key[:8]}{'*' * 12}{key[-4:]}.",
                          "code": "invalid_api_key"}}
        self.send(http, 401, json.dumps(told).encode())


def unit(values):
    norm = math.sqrt(sum(v * v for v in values))
    return np.array([v / norm for v in values], np.float32)

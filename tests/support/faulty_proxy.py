"""An HTTP proxy in front of an S3 server that fails like networks and servers: each request may meet one fault.
It records every request with its fault and the server's answer, and the parts of uploads that are neither completed nor
aborted."""
import http.client, http.server, random, socket, threading, time, urllib.parse


def error(code, message=""):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message or code}</Message></Error>".encode()


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream, plan=None):
        """upstream: (host, port). plan(number, method, target) -> a fault's name or None."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.plan = upstream, plan or (lambda *_: None)
        self.lock, self.count, self.log, self.open_parts = threading.Lock(), 0, [], {}
        self.in_progress, self.has_ended = 0, threading.Condition(self.lock)
        self.delay = 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        pass  # clients that were cut off

    def next_fault(self, method, target):
        with self.lock:
            self.count += 1
            self.in_progress += 1
            return self.plan(self.count, method, target)

    def settled(self):
        """This proxy, once no request is in progress: a client has its answer before the record has the request."""
        with self.lock:
            assert self.has_ended.wait_for(lambda: self.in_progress == 0, 60), f"{self.in_progress} requests do not end"
        return self

    def faults(self):
        return [f for _, _, f, _, _ in self.settled().log if f]

    def failed(self):
        """The requests that a client has to repeat."""
        return sum(broken for *_, broken in self.settled().log)


def sometimes(seed, share, names):
    draw = random.Random(seed)
    return lambda *_: draw.choice(names) if draw.random() < share else None


READ_FAULTS = ["500", "503", "429", "cut", "lost", "refuse", "longer", "shorter", "slow"]
WRITE_FAULTS = ["500", "503", "lost", "refuse", "cut_upload", "corrupt", "slow", "500_after", "error200"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        fault = self.server.next_fault(self.command, self.path)
        said = None
        try:
            said = self.serve(fault)
        finally:
            with self.server.lock:
                self.server.log.append((self.command, self.path, fault, said, self.is_broken(fault, said)))
                self.server.in_progress -= 1
                self.server.has_ended.notify_all()

    def is_broken(self, fault, said):
        size = int(self.headers.get("Content-Length") or 0)
        if fault == "corrupt":
            return size > 0 and said >= 400
        if fault == "cut_upload":
            return size > 0
        if fault == "error200":
            return self.command == "POST" and "uploadId=" in self.path
        return fault not in (None, "slow")


    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def hang_up(self):
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def say(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self, fault):
        if fault == "refuse":
            return self.hang_up()
        size = int(self.headers.get("Content-Length") or 0)
        if fault == "cut_upload" and size > 0:
            self.rfile.read(size // 2)
            return self.hang_up()
        body = self.rfile.read(size)
        if fault in ("403", "404", "500", "503", "429", "skewed", "expired"):
            code = {"403": "AccessDenied", "404": "NoSuchUpload", "500": "InternalError", "503": "SlowDown",
                    "429": "TooManyRequests", "skewed": "RequestTimeTooSkewed", "expired": "ExpiredToken"}[fault]
            self.say({"skewed": 403, "expired": 400}.get(fault) or int(fault), error(code),
                     [("Content-Type", "application/xml")])
            return None
        if fault == "error200" and self.command == "POST" and "uploadId=" in self.path:
            self.say(200, error("InternalError"))
            return None
        if fault == "corrupt" and size > 0:
            body = bytes([body[0] ^ 1]) + body[1:]
        if fault == "slow":
            time.sleep(0.2)
        return self.forward(fault, body)

    def forward(self, fault, body):
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=120)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    upstream.putheader(name, value)
            upstream.endheaders(body if body else None)
            got = upstream.getresponse()
            said = got.read()
            self.keep_books(got.status)
            time.sleep(self.server.delay)
            self.answer(fault, got, said)
            return got.status
        finally:
            upstream.close()

    def keep_books(self, status):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
        with self.server.lock:
            if "partNumber" in query and status == 200:
                self.server.open_parts.setdefault(query["uploadId"][0], []).append(query["partNumber"][0])
            if self.command in ("POST", "DELETE") and "uploadId" in query and status < 300:
                self.server.open_parts.pop(query["uploadId"][0], None)

    def answer(self, fault, got, said):
        if fault == "lost":
            return self.hang_up()
        if fault == "500_after":
            return self.say(500, error("InternalError"))
        length, part = int(got.headers.get("Content-Length") or len(said)), said
        if fault == "cut":
            part = said[: len(said) // 2]
        if fault == "longer":  # announces more bytes than it sends
            length += 1000
        if fault == "shorter" and got.status in (200, 206):  # announces fewer bytes than there are
            length = len(said) // 2
        if fault == "crumb" and "Content-Range" in got.headers:  # one byte of the range, late
            time.sleep(0.1)
            length, part = 1, said[:1]
            first, total = got.headers["Content-Range"].removeprefix("bytes ").split("-")[0], got.headers[
                "Content-Range"].split("/")[1]
            got.headers.replace_header("Content-Range", f"bytes {first}-{first}/{total}")
        self.send_response(got.status)
        for name, value in got.headers.items():
            if name.lower() not in ("content-length", "connection", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(part)
            self.wfile.flush()
        if fault in ("cut", "longer"):
            self.hang_up()

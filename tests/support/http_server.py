"""A web server of files for tests, on loopback: ranges, ETags, redirects, a password, TLS; each request may meet one
fault. It lists nothing."""
import base64, hashlib, http.server, pathlib, re, socket, ssl, subprocess, threading, time, urllib.parse


class Server(http.server.ThreadingHTTPServer):
    """Serves the files of a folder. /moved/PATH redirects to /PATH, /elsewhere/PATH to PATH of the server `other`,
    /ftp/PATH to another protocol,
    /private/PATH needs a password.

    plan(number of the request, method, path) -> a fault's name or None:
    500, 403, 404; cut (half of the answer), stall (half, then nothing), drip (half, then a byte at a time), crumb (one
    byte of the range, late), mute (nothing), whole (no ranges), other (another ETag), denies (403 for what is not
    there)
    """

    daemon_threads, other = True, ""
    request_queue_size = 128

    def __init__(self, folder, plan=None, tls=None):
        """tls: folder for a certificate of its own."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.plan = pathlib.Path(folder), plan or (lambda *_: None)
        self.lock, self.count, self.log, self.certificate, self.ends = threading.RLock(), 0, [], None, threading.Event()
        if tls:
            self.certificate, key = pathlib.Path(tls) / "web.pem", pathlib.Path(tls) / "web.key"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "2", "-subj", "/CN=127.0.0.1",
                            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", self.certificate],
                           check=True, capture_output=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate, key)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return ("https" if self.certificate else "http") + "://127.0.0.1:%d" % self.server_address[1]

    def handle_error(self, *_):
        pass  # clients that hung up

    def forget(self):
        with self.lock:
            self.log.clear()

    def gets(self, part=""):
        """(path, status, bytes sent, fault) of the GET requests whose path contains this."""
        with self.lock:
            return [entry[1:] for entry in self.log if entry[0] == "GET" and part in entry[1]]

    def fault(self, method, path):
        with self.lock:
            self.count += 1
            return self.plan(self.count, method, path)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, fault = urllib.parse.unquote(self.path), self.server.fault(self.command, self.path)
        status = sent = 0
        try:
            status, sent = self.answer(path, fault)
        finally:
            with self.server.lock:
                self.server.log.append((self.command, path, status, sent, fault))

    do_HEAD = do_GET

    def answer(self, path, fault):
        for prefix, target in (("/moved/", "/" + path[7:]), ("/elsewhere/", self.server.other + path[10:]),
                               ("/ftp/", "ftp://127.0.0.1/x")):
            if path.startswith(prefix):
                return self.say(302, [("Location", urllib.parse.quote(target, safe=":/"))])
        if path.startswith("/private/"):
            if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:hush").decode():
                return self.say(401, [("WWW-Authenticate", "Basic")])
            path = path[8:]
        if fault in ("500", "403", "404"):
            return self.say(int(fault))
        file = self.server.folder / path.lstrip("/")
        if file.is_dir():
            return self.say(403) if path.endswith("/") else self.say(301, [("Location", self.path + "/")])
        if not file.is_file():
            return self.say(403 if fault == "denies" else 404)
        return self.serve(file, fault)

    def serve(self, file, fault):
        data, stat = file.read_bytes(), file.stat()
        etag = hashlib.md5(data).hexdigest() if fault != "other" else "other"
        about = [("ETag", f'"{etag}"'), ("Last-Modified", self.date_time_string(int(stat.st_mtime))),
                 ("Accept-Ranges", "bytes")]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not wanted or fault == "whole":
            return self.say(200, about, data)
        first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        if first > last:
            return self.say(416, [("Content-Range", f"bytes */{len(data)}")])
        if fault == "crumb":
            last = first
            time.sleep(0.1)
        if fault == "mute":
            self.server.ends.wait(60)
        about.append(("Content-Range", f"bytes {first}-{last}/{len(data)}"))
        return self.say(206, about, data[first:last + 1], fault)

    def say(self, status, headers=(), body=b"", fault=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return status, 0
        part = body[:len(body) // 2] if fault in ("cut", "stall", "drip") else body
        self.wfile.write(part)
        self.wfile.flush()
        if fault == "stall":
            time.sleep(3)
        for byte in body[len(part):len(part) + 600] if fault == "drip" else ():
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.1)
        if fault in ("cut", "stall", "drip"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        return status, len(part)

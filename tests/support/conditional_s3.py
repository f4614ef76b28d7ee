"""An S3 server for tests, in this process, without keys: objects in memory with If-Match and If-None-Match, the flat
listing of ListObjectsV2, and answers that go wrong as asked. Keys below bucket/many/ are computed, not stored."""
import bisect, hashlib, threading, time, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape


def etag(body):
    return f'"{hashlib.md5(body).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code):
        self.answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def key(self):
        return urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).removeprefix("/bucket").lstrip("/")

    def holds(self, now):
        """Whether the object meets the request's condition."""
        match, none = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if none and now is not None and self.server.of.ignores != "create":
            return False
        return not match or self.server.of.ignores == "replace" or (now is not None and etag(now) == match)

    def write(self, change):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.of.lock:
            fault = self.server.of.faults.pop(0) if self.server.of.faults else ""
            if fault == "409":
                return self.error(409, "ConditionalRequestConflict")
            if fault == "500":
                return self.error(500, "InternalError")
            if not self.holds(self.server.of.objects.get(self.key())):
                return self.error(412, "PreconditionFailed")
            change(body)
        if fault == "lost":
            self.close_connection = True
            return self.connection.close()
        self.answer(200, ETag=etag(body))

    def do_PUT(self):
        self.write(lambda body: self.server.of.objects.update({self.key(): body}))

    def do_DELETE(self):
        self.write(lambda _: self.server.of.objects.pop(self.key(), None))

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if "list-type" in query:
            return self.answer(200, self.server.of.delayed_page(query).encode())
        while self.server.of.held and self.server.of.held in self.key():
            time.sleep(0.01)
        body = self.server.of.objects.get(self.key())
        if body is None:
            return self.error(404, "NoSuchKey")
        if not (asked := self.headers.get("Range")):
            return self.answer(200, body, ETag=etag(body))
        first, last = (int(n) for n in asked.removeprefix("bytes=").split("-"))
        last = min(last, len(body) - 1)
        if first > last:
            return self.error(416, "InvalidRange")
        self.answer(206, body[first:last + 1], ETag=etag(body), Content_Range=f"bytes {first}-{last}/{len(body)}")

    do_HEAD = do_GET


class Server:
    """ignores: "create" or "replace", a condition that it takes for none. faults: the next conditional writes get
    these: "409", "500", or "lost" (it writes and closes the connection). many: number of computed keys, of objects
    of `size` bytes that cannot be read. delay: seconds before each page of a list. held: objects with this in their
    key are not read before it is "". pages: number of pages so far, of which the last was asked for at listed_at[1]
    and the first at listed_at[0]; most_at_once: most of them that waited for an answer at the same time."""

    def __init__(self, ignores="", many=0, size=1, delay=0):
        self.objects, self.faults, self.ignores, self.many, self.size = {}, [], ignores, many, size
        self.held, self.pages, self.lock, self.delay = "", 0, threading.Lock(), delay
        self.listed_at, self.at_once, self.most_at_once = [0, 0], 0, 0
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads, self.http.of = True, self
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.http.server_address[1]

    def delayed_page(self, query):
        with self.lock:
            self.pages += 1
            self.listed_at = [self.listed_at[0] or time.monotonic(), time.monotonic()]
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.delay)
        with self.lock:
            self.at_once -= 1
        return self.page(query)

    def page(self, query):
        prefix, most = query.get("prefix", ""), int(query.get("max-keys", 1000))
        after = urllib.parse.unquote(query.get("continuation-token", "")) or query.get("start-after", "")
        if prefix == "many/":
            name = "many/v{:09}.mp4".format
            first = bisect.bisect_right(range(self.many), after, key=name)
            keys = [name(n) for n in range(first, min(self.many, first + most))]
            is_cut = first + most < self.many
        else:
            names = sorted(k for k in self.objects if k.startswith(prefix) and k > after)
            keys, is_cut = names[:most], len(names) > most
        of_each = f"<LastModified>2026-01-02T03:04:05.000Z</LastModified><Size>{self.size}</Size>"
        each = "".join(f"<Contents><Key>{escape(urllib.parse.quote(k))}</Key>{of_each}</Contents>" for k in keys)
        return (f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{str(is_cut).lower()}</IsTruncated>"
                f"<NextContinuationToken>{urllib.parse.quote(keys[-1]) if keys else 'x'}</NextContinuationToken>"
                f"{each}</ListBucketResult>")

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

"""A real S3 server for tests: rclone serve s3, with SigV4 keys, over a folder that contains the stored
objects as files."""
import os, pathlib, socket, subprocess, sys, time

import quick

RCLONE = os.environ.get("KINORA_RCLONE") or str(pathlib.Path(sys.executable).parent / "rclone")
KEY, SECRET = "KINORATESTKEY", "kinora/secret+key=1234567890"


def environment(home, **more):
    """Variables for programs that use the server, without the user's own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and "proxy" not in k.lower()}
    return {**clean, "HOME": str(home), "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, **more}


class Server:
    """Serves FOLDER/NAME, with the bucket "bucket". etag: the hash that ETags are; rclone reads a whole file for it
    before each requested part. tls: with a certificate of its own."""

    def __init__(self, folder, name, etag="MD5", tls=False):
        self.root = folder / name
        (self.root / "bucket").mkdir(parents=True)
        self.at = ("127.0.0.1", quick.held_port())
        self.certificate = folder / f"{name}.pem" if tls else None
        if tls:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "2", "-subj", "/CN=127.0.0.1",
                            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out",
                            self.certificate], check=True, capture_output=True)
        self.process = subprocess.Popen(
            [RCLONE, "serve", "s3", str(self.root), "--addr", "%s:%d" % self.at, "--auth-key", f"{KEY},{SECRET}",
             "--dir-cache-time", "1ms", "--etag-hash", etag,
             *(["--cert", self.certificate, "--key", folder / "key.pem"] if tls else [])],
            stdout=subprocess.DEVNULL, stderr=open(folder / f"{name}.log", "w"))
        for _ in range(200):
            with socket.socket() as s:
                if s.connect_ex(self.at) == 0:
                    return
            time.sleep(0.05)
        sys.exit("rclone serve s3 does not start: " + (folder / f"{name}.log").read_text())

    @property
    def url(self):
        return ("https" if self.certificate else "http") + "://%s:%d" % self.at

    def file(self, key):
        return self.root / "bucket" / key

    def names(self):
        bucket = self.root / "bucket"
        return sorted(str(p.relative_to(bucket)) for p in bucket.rglob("*") if p.is_file())

    def stop(self):
        self.process.kill()
        self.process.wait()

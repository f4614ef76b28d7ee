"""Letters between the engine and the bridge (plugins/engines/ray/wire.hpp): packets of a SOCK_SEQPACKET socket, each
the size of its head (4 bytes), the head in CBOR, bytes, and descriptors of sealed memory beside."""
import array
import fcntl
import mmap
import os
import socket
import struct

_MOST = (64 << 10) + (48 << 10) + 4096
_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # F_SEAL_SEAL, SHRINK, GROW, WRITE
_ADD_SEALS = 1033  # F_ADD_SEALS


def _size(major, n):
    if n < 24:
        return bytes([major << 5 | n])
    for extra, form, most in ((24, ">B", 1 << 8), (25, ">H", 1 << 16), (26, ">I", 1 << 32), (27, ">Q", 1 << 64)):
        if n < most:
            return bytes([major << 5 | extra]) + struct.pack(form, n)
    raise ValueError(n)


def cbor(value):
    """What a head is made of: None, bool, int, float, str, lists and dicts."""
    if value is None or value is False or value is True:
        return bytes([{None: 0xf6, False: 0xf4, True: 0xf5}[value]])
    if isinstance(value, int):
        return _size(0, value) if value >= 0 else _size(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode("utf-8", "replace")
        return _size(3, len(data)) + data
    if isinstance(value, (list, tuple)):
        return _size(4, len(value)) + b"".join(map(cbor, value))
    return _size(5, len(value)) + b"".join(cbor(k) + cbor(v) for k, v in value.items())


def _decode(data, at):
    major, info = data[at] >> 5, data[at] & 31
    at += 1
    if major == 7:
        if info in (26, 27):
            size = 4 if info == 26 else 8
            return struct.unpack(">f" if size == 4 else ">d", data[at:at + size])[0], at + size
        return {20: False, 21: True, 22: None}[info], at
    if info >= 24:
        size = 1 << (info - 24)
        info, at = int.from_bytes(data[at:at + size], "big"), at + size
    if major == 0:
        return info, at
    if major == 1:
        return -1 - info, at
    if major == 2:
        return data[at:at + info], at + info
    if major == 3:
        return data[at:at + info].decode(errors="replace"), at + info
    out = []
    for _ in range(info * (2 if major == 5 else 1)):
        one, at = _decode(data, at)
        out.append(one)
    return (dict(zip(out[::2], out[1::2])) if major == 5 else out), at


def head_of(packet):
    size = struct.unpack_from("=I", packet)[0]
    return _decode(packet[4:4 + size], 0)[0]


def joined(head, packed):
    """A letter with the sample of a packet of kinora_embed_pack(), whose head is a map of one entry."""
    size = struct.unpack_from("=I", packed)[0]
    if packed[4] != 0xa1:
        raise ValueError("libkinora's kinora_embed_pack() writes another head than this kinora-ray knows")
    both = _size(5, len(head) + 1) + b"".join(cbor(k) + cbor(v) for k, v in head.items()) + packed[5:4 + size]
    return struct.pack("=I", len(both)) + both + packed[4 + size:]


def _memory(piece):
    """A sealed memory with a copy of the piece."""
    out = os.memfd_create("kinora-sample", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(piece).cast("B")
    while len(view):
        view = view[os.write(out, view):]
    fcntl.fcntl(out, _ADD_SEALS, _SEALS)
    return out


class Wire:

    def __init__(self, descriptor):
        self.socket = socket.socket(fileno=descriptor)
        self.socket.setblocking(True)

    def fileno(self):
        return self.socket.fileno()

    def send(self, head, packed=None, pieces=()):
        data = joined(head, packed) if packed else (lambda c: struct.pack("=I", len(c)) + c)(cbor(head))
        memory = [_memory(piece) for piece in pieces]
        try:
            beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", memory))] if memory else []
            self.socket.sendmsg([data], beside, socket.MSG_NOSIGNAL)
        finally:
            for one in memory:
                os.close(one)

    def receive(self):
        """(head, packet, pieces) of the next letter; None if there is none now. Raises EOFError at the end."""
        try:
            data, beside, flags, _ = self.socket.recvmsg(_MOST, socket.CMSG_SPACE(4 * 64),
                                                         socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except ConnectionError:
            raise EOFError from None
        if not data:
            raise EOFError
        pieces = []
        for _, _, given in beside:
            for one in array.array("i", given[:len(given) // 4 * 4]):
                pieces.append(mmap.mmap(one, 0, mmap.MAP_SHARED, mmap.PROT_READ))
                os.close(one)
        return head_of(data), data, pieces

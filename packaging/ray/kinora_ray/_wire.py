"""Letters between the engine and the bridge (plugins/engines/ray/wire.hpp): packets of a SOCK_SEQPACKET socket, each
the size of its head (4 bytes), the head in MessagePack, bytes, and descriptors of sealed memory beside."""
import array
import fcntl
import mmap
import os
import socket
import struct

_MOST = (64 << 10) + (48 << 10) + 4096
_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # F_SEAL_SEAL, SHRINK, GROW, WRITE
_ADD_SEALS = 1033  # F_ADD_SEALS


def _packet(head, rest=b""):
    import msgpack  # Ray needs it; without Ray, only this module does
    data = msgpack.packb(head, unicode_errors="surrogateescape")
    return struct.pack("=I", len(data)) + data + rest


def head_of(packet):
    import msgpack
    size = struct.unpack_from("=I", packet)[0]
    return msgpack.unpackb(packet[4:4 + size], unicode_errors="surrogateescape")


def joined(head, packed):
    """A letter with the sample of a packet of kinora_embed_pack()."""
    size = struct.unpack_from("=I", packed)[0]
    return _packet({**head, **head_of(packed)}, packed[4 + size:])


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
        data = joined(head, packed) if packed else _packet(head)
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

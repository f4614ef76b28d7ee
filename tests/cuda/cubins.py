"""Lists the GPUs that a library has kernels for. The cubins in its section .nv_fatbin are ELF files for CUDA machines,
and each records the -arch of its assembler.

usage: cubins_test.py LIBRARY ARCH...
"""
import re
import struct
import sys

EM_CUDA = 190


def section(elf, wanted):
    """The bytes of a named section of a 64-bit little-endian ELF file."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    text = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if elf[text + name:elf.index(b"\0", text + name)] == wanted:
            return elf[offset:offset + length]
    sys.exit(f"{sys.argv[1]} has no section {wanted.decode()}: it holds no kernels")


def architectures(fatbin):
    starts = [m.start() for m in re.finditer(b"\x7fELF\x02", fatbin)
              if struct.unpack_from("<H", fatbin, m.start() + 18)[0] == EM_CUDA]
    found = []
    for first, end in zip(starts, starts[1:] + [len(fatbin)]):
        note = re.search(rb"-arch (sm_\w+)", fatbin[first:end])
        names = sorted(set(re.findall(rb"\.text\.(\w+)\0", fatbin[first:end])))
        found.append((note.group(1).decode() if note else "unknown", len(names)))
    return found


def main(library, *wanted):
    found = architectures(section(open(library, "rb").read(), b".nv_fatbin"))
    kernels = {arch: sum(n for a, n in found if a == arch) for arch, _ in found}
    print(library, kernels)
    counts = {kernels.get(arch, 0) for arch in wanted}
    if set(kernels) != set(wanted) or len(counts) != 1 or 0 in counts:
        sys.exit(f"kernels for exactly {', '.join(wanted)} are expected, as many for each")


main(*sys.argv[1:])

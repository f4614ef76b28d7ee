// The parts of an MP4 that grows (ISO/IEC 14496-12): a header, then fragments.

function joined(a, b) {
  const out = new Uint8Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}

/** Yields each part of a stream of bytes when it is complete: the boxes up to and with `moov` or `mdat`. */
export async function* parts(stream) {
  const reader = stream.getReader();
  let have = new Uint8Array(0), end = 0; // end: of the complete boxes of the next part
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      have = joined(have, value);
      while (have.length >= end + 8) {
        const size = new DataView(have.buffer, have.byteOffset + end).getUint32(0);
        if (size < 8) throw new Error("the video is damaged");
        if (have.length < end + size) break;
        const type = String.fromCharCode(...have.subarray(end + 4, end + 8));
        end += size;
        if (type !== "moov" && type !== "mdat") continue;
        yield have.slice(0, end);
        have = have.slice(end);
        end = 0;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The type that a header states, such as video/mp4; codecs="avc1.42c01f"; "" if it is not H.264 in fragments. */
export function typeOf(header) {
  const letters = new TextDecoder("latin1").decode(header); // one for each byte
  const at = letters.indexOf("avcC"); // then a version, and the three bytes that the codec's name has
  if (at < 0 || !letters.includes("mvex")) return "";
  const digits = [...header.slice(at + 5, at + 8)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `video/mp4; codecs="avc1.${digits}"`;
}

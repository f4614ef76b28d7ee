// A video in the browser's memory while it grows, by Media Source Extensions.

const Source = globalThis.ManagedMediaSource ?? globalThis.MediaSource;
const kMost = 60, kLess = 30; // seconds in memory: at most, and left when older ones are removed
const kBehind = 1; // seconds that a viewer may be behind the end, or a chunk where that is longer

/** Begins something that calls back when it is done; fails when the signal aborts. */
export const until = (begin, signal) => new Promise((resolve, reject) => {
  const stop = () => reject(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  begin(() => {
    signal.removeEventListener("abort", stop);
    resolve();
  });
});

const once = (target, name, signal) => until((done) => target.addEventListener(name, done, { once: true }), signal);

export const canPlay = (type) => Boolean(Source) && type !== "" && Source.isTypeSupported(type);

export class Growing {
  /** An empty one, which the element shows. */
  static async open(element, type, signal) {
    const out = new Growing();
    const source = new Source(), address = URL.createObjectURL(source);
    Object.assign(out, { element, signal, chunk: 0 });
    element.disableRemotePlayback = true; // else a ManagedMediaSource does not open
    element.src = address;
    await once(source, "sourceopen", signal);
    URL.revokeObjectURL(address);
    out.buffer = source.addSourceBuffer(type);
    return out;
  }

  get begin() {
    return this.buffer.buffered.length ? this.buffer.buffered.start(0) : 0;
  }

  get end() {
    const { buffered } = this.buffer;
    return buffered.length ? buffered.end(buffered.length - 1) : 0;
  }

  /** Adds the header, or the next fragment: a chunk of the video. */
  async add(part) {
    const before = this.end;
    try {
      await this.append(part);
    } catch (error) {
      if (error.name !== "QuotaExceededError") throw error;
      await this.keep(kLess / 2);
      await this.append(part);
    }
    this.chunk = Math.max(this.chunk, this.end - before);
    if (this.end - this.begin > kMost) await this.keep(kLess);
    this.follow();
  }

  async append(part) {
    this.buffer.appendBuffer(part);
    await once(this.buffer, "updateend", this.signal);
  }

  /** Removes all but the last seconds: they are played, or follow() skips them. */
  async keep(seconds) {
    if (this.end - seconds <= this.begin) return;
    this.buffer.remove(0, this.end - seconds);
    await once(this.buffer, "updateend", this.signal);
  }

  /** Moves a viewer that plays and is too far behind to the newest chunk. */
  follow() {
    const { element, begin, end, chunk } = this;
    if (element.paused || end === 0) return;
    const isBehind = end - element.currentTime > Math.max(chunk, kBehind) + 0.1;
    if (isBehind || element.currentTime < begin) element.currentTime = Math.max(begin, end - chunk);
  }
}

// Draws a map: the picture of each clip where there is room, else a square, framed in the clip's colour.

const kMost = 300; // pictures
export const kSmallest = [40, 28]; // pixels of a picture's box
const kLargest = 104; // width
const kShare = 0.45; // of the plane that pictures cover
const kEnlarged = 220; // pixels, the wider side of the picture under the pointer
const kShape = kSmallest[1] / kSmallest[0];

/** The box of each of `n` pictures, [width, height]; null: there is no room for so many. */
export function boxOf(n, [width, height]) {
  const across = Math.min(Math.sqrt((kShare * width * height) / (n || 1) / kShape), kLargest);
  return n > kMost || across < kSmallest[0] ? null : [across, across * kShape];
}

export class Drawing {
  /** colour(name): of a custom property of the style. */
  constructor(canvas, colour) {
    const scale = devicePixelRatio, { clientWidth: width, clientHeight: height } = canvas;
    canvas.width = width * scale;
    canvas.height = height * scale;
    Object.assign(this, { pen: canvas.getContext("2d"), colour, width, height });
    this.pen.scale(scale, scale);
    this.pen.imageSmoothingQuality = "high";
  }

  square([x, y], size, colour) {
    this.pen.fillStyle = colour;
    this.pen.fillRect(x - size / 2, y - size / 2, size, size);
  }

  /** The whole picture, in its own shape; a box without one. marks: {focused, checked}. */
  picture(bitmap, [x, y], [w, h], colour, marks) {
    const { pen } = this, fit = bitmap ? Math.min(w / bitmap.width, h / bitmap.height) : 0;
    const [wide, high] = bitmap ? [bitmap.width * fit, bitmap.height * fit] : [w * 0.6, h * 0.6];
    const [left, top] = [x - wide / 2, y - high / 2];
    pen.fillStyle = this.colour("--raised");
    pen.fillRect(left, top, wide, high);
    if (bitmap) pen.drawImage(bitmap, left, top, wide, high);
    this.frame(left, top, wide, high, colour, 2);
    this.marks(left, top, wide, high, marks);
  }

  /** Larger than the others, and whole within the plane. */
  enlarged(bitmap, [x, y], colour, marks) {
    const { pen } = this, most = Math.min(kEnlarged, 0.6 * this.width, 0.6 * this.height);
    const fit = most / Math.max(bitmap.width, bitmap.height), [w, h] = [bitmap.width * fit, bitmap.height * fit];
    const within = (value, half, all) => Math.min(Math.max(value, half + 6), all - half - 6);
    pen.save();
    pen.shadowColor = "#0009";
    pen.shadowBlur = 16;
    const place = [within(x, w / 2, this.width), within(y, h / 2, this.height)];
    this.square(place, 0, colour);
    pen.fillStyle = this.colour("--panel");
    pen.fillRect(place[0] - w / 2, place[1] - h / 2, w, h);
    pen.restore();
    this.picture(bitmap, place, [w, h], colour, marks);
  }

  /** A ring for the focused clip, a tick for a selected one. */
  marks(left, top, w, h, { focused, checked }) {
    const { pen } = this, accent = this.colour("--accent");
    if (focused) this.frame(left - 2, top - 2, w + 4, h + 4, this.colour("--text"), 2);
    if (!checked) return;
    this.frame(left, top, w, h, accent, 3);
    pen.fillStyle = accent;
    pen.fillRect(left, top, 14, 14);
    pen.strokeStyle = this.colour("--on-accent");
    pen.lineWidth = 2;
    pen.beginPath();
    for (const [x, y] of [[3, 7], [6, 10], [11, 4]]) pen.lineTo(left + x, top + y);
    pen.stroke();
  }

  frame(left, top, w, h, colour, line) {
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = line;
    this.pen.strokeRect(left - line / 2, top - line / 2, w + line, h + line);
  }

  loop(places) {
    this.pen.strokeStyle = this.colour("--text");
    this.pen.lineWidth = 1.5;
    this.pen.stroke(pathOf(places));
  }
}

export function pathOf(places) {
  const out = new Path2D();
  places.forEach(([x, y], i) => (i ? out.lineTo(x, y) : out.moveTo(x, y)));
  return out;
}

// The scale of a histogram: where on it a value is, and the value at a place. It is logarithmic if the bars have edges;
// a first bar from 0 is for what is less than the smallest other number.

/** h: of /api/histograms, or from a score of the report. Returns {at(value): share of the width, value(share), edge(i):
 * where bar i begins}. */
export function scaleOf(h) {
  const { low, high, edges = [] } = h;
  if (!edges.length) {
    const step = (high - low) / h.all.length;
    return { at: (value) => (value - low) / (high - low), value: (share) => low + share * (high - low),
        edge: (i) => (i === h.all.length ? high : low + i * step) };
  }
  const least = low > 0 ? low : edges[1], first = low > 0 ? 0 : 1 / h.all.length;
  const decades = Math.log(high) - Math.log(least);
  const at = (value) => first + (1 - first) * (Math.log(value) - Math.log(least)) / decades;
  return { at: (value) => (value >= least ? at(value) : first ? first * value / least : value > 0 ? at(value) : -1),
      value: (share) => (share < first ? least * share / first
      : least * Math.exp((share - first) / (1 - first) * decades)), edge: (i) => edges[i] };
}

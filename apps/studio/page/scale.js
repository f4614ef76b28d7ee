// The scale of a histogram: where on it a value is, and the value at a place. It is logarithmic if the bars have edges.

/** h: of /api/histograms. Returns {at(value): share of the width, value(share), edge(i): where bar i begins}. */
export function scaleOf(h) {
  const { low, high, edges = [] } = h;
  if (!edges.length) {
    const step = (high - low) / h.all.length;
    return { at: (value) => (value - low) / (high - low), value: (share) => low + share * (high - low),
        edge: (i) => (i === h.all.length ? high : low + i * step) };
  }
  const decades = Math.log(high / low);
  return { at: (value) => (value > 0 ? Math.log(value / low) / decades : -1),
      value: (share) => low * Math.exp(share * decades), edge: (i) => edges[i] };
}

// Seconds of the operations of a step: kernels of a device, from their shapes, and collectives, from the
// bytes that a rank sends over the slowest link that its group crosses. Both reduce the published peaks by
// Efficiency.
#pragma once
#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

// Kernels of one GPU of the problem's cluster. The problem must outlive this object.
class Kernels {
 public:
  explicit Kernels(const Problem& p) : p_(p) {}
  // [m, k] x [k, n]. Tiles of 128 x 256 run in waves over the multiprocessors. Starting the first wave and
  // the gaps of the last cost about one wave, so small products are slower.
  double product(double m, double n, double k) const;
  // Fused attention: `pairs` of queries and keys with `width` channels, in sequences of `queries` and `keys`
  // tokens; their tiles of 128 x 64 may not be full.
  double attention(double pairs, double width, double queries, double keys) const;
  // Reads and writes this many bytes.
  double memory(double bytes) const;

 private:
  const Problem& p_;
};

// A group of ranks along some axes: `size` of them, of which `in_node` share a node.
struct Group {
  int64_t size = 1, in_node = 1;
  bool crosses() const { return in_node < size; }
};
// stride: distance in ranks between neighbouring members, the product of the inner axes.
Group group(const Cluster&, int64_t size, int64_t stride);
Group tensor_group(const Layout&, const Cluster&);
Group sequence_group(const Layout&, const Cluster&);
Group shard_group(const Layout&, const Cluster&);    // shares fsdp's pieces
Group replica_group(const Layout&, const Cluster&);  // ranks that hold the same pieces of the weights
Group pipeline_group(const Layout&, const Cluster&);

// Bytes that one rank of n sends in a ring; `bytes` is the size of the whole, gathered tensor.
inline double gather_bytes(double bytes, int64_t n) {
  return bytes * static_cast<double>(n - 1) / static_cast<double>(n);
}
inline double all_reduce_bytes(double bytes, int64_t n) { return 2 * gather_bytes(bytes, n); }

// Seconds of one collective; 0 for a group of one rank. Cluster and Efficiency must outlive this object.
class Links {
 public:
  Links(const Cluster& c, const Efficiency& e) : c_(c), e_(e) {}
  // Ring collectives. Across nodes each byte enters a node once, over the network cards of all members there.
  double collective(double bytes, const Group&) const;
  double gather(double whole, const Group& g) const { return collective(gather_bytes(whole, g.size), g); }
  double all_reduce(double whole, const Group& g) const {
    return collective(all_reduce_bytes(whole, g.size), g);
  }
  // Data for other nodes leaves over the rank's own card while the rest uses the node's links.
  double all_to_all(double held, const Group&) const;
  // One step of a ring: the slowest neighbour is the one in the next node.
  double step(double block, const Group&) const;

 private:
  double latency(const Group& g) const { return g.crosses() ? c_.network_latency : c_.link_latency; }
  const Cluster& c_;
  const Efficiency& e_;
};

}  // namespace kinora::core::plan

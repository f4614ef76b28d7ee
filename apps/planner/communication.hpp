// Bytes that a rank sends in each collective, in closed form, and the seconds for them over the slowest link
// that the group crosses.
#pragma once
#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

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

// Bytes sent by one rank; `bytes` is the size of the whole, gathered tensor.
inline double gather_bytes(double bytes, int64_t n) {
  return bytes * static_cast<double>(n - 1) / static_cast<double>(n);
}
inline double reduce_scatter_bytes(double bytes, int64_t n) { return gather_bytes(bytes, n); }
inline double all_reduce_bytes(double bytes, int64_t n) { return 2 * gather_bytes(bytes, n); }
// `bytes` is what one rank holds before the exchange.
inline double all_to_all_bytes(double bytes, int64_t n) { return gather_bytes(bytes, n); }
inline double ring_bytes(double block, int64_t n) { return block * static_cast<double>(n - 1); }

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

// Counts the bytes that a rank sends and receives, and how long it waits for others.
//
// Per transfer of b bytes of input among n ranks, the count is the least that any algorithm moves; c10d's
// rings move the same. Sums over all ranks of sent and received are equal.
//
//   sum, max           2 (n-1) b / n  sent and received
//   gather               (n-1) b      sent and received
//   scatter-sum, exchange (n-1) b / n sent and received
//   broadcast            (n-1) b      sent by the root, b received by the others
//   send, recv                 b      sent, received
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kinora/abi/collective.h"

namespace kinora::core {

struct TrafficRow {
  int64_t transfers = 0, sent = 0, received = 0;  // bytes
  double waited = 0;                              // seconds in finish()
  TrafficRow& operator+=(const TrafficRow&);
};

class Traffic {
 public:
  using Rows = std::map<std::pair<std::string, std::string>, TrafficRow>;  // by group and operation
  // [any-thread] bytes: size of the input. For a broadcast or message, peer is the other rank within the
  // group.
  void started(const std::string& group, int64_t ranks, int64_t rank, uint32_t op, int64_t peer,
               int64_t bytes);
  void waited(const std::string& group, uint32_t op, double seconds);
  // [any-thread] Totals since the start.
  Rows rows() const;
  TrafficRow total() const;

 private:
  mutable std::mutex mutex_;
  Rows rows_;
};

// "scatter-sum"; the same names as in the errors of collectives.
const char* transfer_name(uint32_t op);

}  // namespace kinora::core

#include "core/torch/ranks/traffic.hpp"

namespace kinora::core {

TrafficRow& TrafficRow::operator+=(const TrafficRow& o) {
  transfers += o.transfers;
  sent += o.sent;
  received += o.received;
  waited += o.waited;
  return *this;
}

const char* transfer_name(uint32_t op) {
  constexpr const char* names[] = {"sum",       "max",  "gather", "scatter-sum", "exchange",
                                   "broadcast", "send", "recv",   "barrier"};
  return op <= KINORA_OP_BARRIER ? names[op] : "unknown";
}

void Traffic::started(const std::string& group, int64_t n, int64_t rank, uint32_t op, int64_t peer,
                      int64_t b) {
  int64_t sent = 0, received = 0;
  switch (op) {
    case KINORA_OP_ALL_REDUCE:
    case KINORA_OP_ALL_REDUCE_MAX:
      sent = received = 2 * (n - 1) * b / n;
      break;
    case KINORA_OP_ALL_GATHER:
      sent = received = (n - 1) * b;
      break;
    case KINORA_OP_REDUCE_SCATTER:
    case KINORA_OP_ALL_TO_ALL:
      sent = received = (n - 1) * b / n;
      break;
    case KINORA_OP_BROADCAST:
      (rank == peer ? sent : received) = rank == peer ? (n - 1) * b : b;
      break;
    case KINORA_OP_SEND:
      sent = b;
      break;
    case KINORA_OP_RECV:
      received = b;
      break;
    default:
      break;
  }
  const std::scoped_lock lock(mutex_);
  rows_[{group, transfer_name(op)}] += {1, sent, received, 0};
}

void Traffic::waited(const std::string& group, uint32_t op, double seconds) {
  const std::scoped_lock lock(mutex_);
  rows_[{group, transfer_name(op)}].waited += seconds;
}

Traffic::Rows Traffic::rows() const {
  const std::scoped_lock lock(mutex_);
  return rows_;
}

TrafficRow Traffic::total() const {
  const std::scoped_lock lock(mutex_);
  TrafficRow out;
  for (const auto& [key, row] : rows_) out += row;
  return out;
}

}  // namespace kinora::core

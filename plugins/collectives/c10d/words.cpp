#include "plugins/collectives/c10d/words.hpp"

#include <algorithm>
#include <limits>

#include <ATen/WrapDimUtils.h>

namespace kinora {

namespace {

using at::Tensor;

const char* name_of(uint32_t op) {
  constexpr const char* names[] = {"sum",       "max",  "gather", "scatter-sum", "exchange",
                                   "broadcast", "send", "recv",   "barrier"};
  if (op > KINORA_BARRIER)
    throw Error(KINORA_UNSUPPORTED, "transfer number " + std::to_string(op) + " is unknown");
  return names[op];
}

// "recv #2 from rank 5 with tag 7", by world rank.
std::string message_name(const Peers& p, const Transfer<Tensor>& t, int64_t number) {
  const bool known = t.peer >= 0 && t.peer < p.size();
  return std::string(name_of(t.op)) + " #" + std::to_string(number) +
         (t.op == KINORA_SEND ? " to rank " : " from rank ") +
         std::to_string(known ? p.members[static_cast<size_t>(t.peer)] : t.peer) + " with tag " +
         std::to_string(t.tag);
}

}  // namespace

TransferNames::Name TransferNames::next(const Peers& p, const Transfer<at::Tensor>& t) {
  if (t.op == KINORA_SEND || t.op == KINORA_RECV) return {message_name(p, t, ++messages_), t.peer};
  return {std::string(name_of(t.op)) + " #" + std::to_string(++collectives_), -1};
}

void invalid_transfer(const Peers& p, const std::string& what, const std::string& why) {
  throw Error(KINORA_INVALID, p.collective + ": " + what + ": " + why);
}

Transfer<at::Tensor> checked(const Peers& p, Transfer<at::Tensor> t, const std::string& what) {
  if (t.op == KINORA_BARRIER) return t;
  if (!t.in.defined()) invalid_transfer(p, what, "it needs a tensor");
  t.in = t.in.detach();
  constexpr at::ScalarType sums[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                     at::kLong,  at::kInt,    at::kChar, at::kByte};
  const bool adds = t.op == KINORA_SUM || t.op == KINORA_MAX;
  if (adds && std::find(std::begin(sums), std::end(sums), t.in.scalar_type()) == std::end(sums))
    invalid_transfer(p, what, std::string("it cannot combine ") + at::toString(t.in.scalar_type()));
  const bool has_peer = t.op == KINORA_BROADCAST || t.op == KINORA_SEND || t.op == KINORA_RECV;
  if (has_peer && (t.peer < 0 || t.peer >= p.size()))
    invalid_transfer(
        p, what, "there is no rank " + std::to_string(t.peer) + " in a group of " + std::to_string(p.size()));
  if (t.op == KINORA_SEND || t.op == KINORA_RECV) {
    if (t.peer == p.rank) invalid_transfer(p, what, "a rank cannot send to itself");
    if (t.tag < 0 || t.tag > std::numeric_limits<int>::max())
      invalid_transfer(p, what, "tag " + std::to_string(t.tag) + " is not in [0, 2^31)");
  }
  const bool cuts = t.op == KINORA_SCATTER_SUM || t.op == KINORA_EXCHANGE;
  if (t.op != KINORA_GATHER && !cuts) return t;
  t.dim = at::maybe_wrap_dim(t.dim, t.in.dim());
  if (t.op == KINORA_EXCHANGE) t.dim2 = at::maybe_wrap_dim(t.dim2, t.in.dim());
  if (cuts && t.in.size(t.dim) % p.size() != 0)
    invalid_transfer(p, what,
                     "dimension " + std::to_string(t.dim) + " of size " + std::to_string(t.in.size(t.dim)) +
                         " does not divide by " + std::to_string(p.size()) + " ranks");
  return t;
}

}  // namespace kinora

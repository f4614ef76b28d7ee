#include "plugins/collectives/c10d/transfers.hpp"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/from_blob.h>

namespace kinora {

namespace {

using at::Tensor;

// The backend's alias of a tensor that `result` owns. A thread of Gloo releases it shortly after
// the transfer, when the memory may already be needed; CUDA's allocator must see the storage itself.
Tensor lent(const Tensor& contiguous) {
  return contiguous.is_cpu() ? at::from_blob(contiguous.data_ptr(), contiguous.sizes(), contiguous.options())
                             : contiguous;
}
// Any dtype as bytes, for transfers that only move data.
Tensor bytes(const Tensor& contiguous) { return lent(contiguous).view(-1).view(at::kByte); }
Tensor copied(const Tensor& t) { return t.clone(at::MemoryFormat::Contiguous); }

Started reduce(const Peers& p, const Tensor& in, c10d::ReduceOp::RedOpType how) {
  const Tensor buffer = copied(in);
  std::vector<Tensor> list{lent(buffer)};
  c10d::AllreduceOptions options;
  options.reduceOp = how;
  return {[buffer] { return buffer; }, p.backend->allreduce(list, options)};
}

Started gather(const Peers& p, const Tensor& in, int64_t dim) {
  const Tensor mine = in.contiguous();
  auto shape = mine.sizes().vec();
  shape.insert(shape.begin(), p.size());
  const Tensor all = at::empty(shape, mine.options());
  Tensor from = bytes(mine), to = bytes(all);
  return {[mine, all, dim] {
            if (all.dim() == 1) return all;
            return dim == 0 ? all.flatten(0, 1) : at::cat(all.unbind(0), dim);
          },
          p.backend->_allgather_base(to, from)};
}

// Piece r of every rank, on rank r, in rank order: [ranks, piece...].
Started all_to_all(const Peers& p, const Tensor& in, int64_t dim, std::function<Tensor(const Tensor&)> join) {
  const bool lie_so = dim == 0 && in.is_contiguous();  // no copy is needed
  // Contiguous: a stack of channels-last pieces is not contiguous by itself.
  const Tensor pieces = lie_so ? in.unflatten(0, {p.size(), -1})
                               : at::stack(in.chunk(p.size(), dim), 0).contiguous(),
               received = at::empty_like(pieces);
  Tensor from = bytes(pieces), to = bytes(received);
  std::vector<int64_t> equal;
  return {[pieces, received, join = std::move(join)] { return join(received); },
          p.backend->alltoall_base(to, from, equal, equal)};
}

Started broadcast(const Peers& p, const Tensor& in, int64_t root) {
  const Tensor buffer = p.rank == root ? copied(in) : at::empty_like(in, at::MemoryFormat::Contiguous);
  std::vector<Tensor> list{bytes(buffer)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return {[buffer] { return buffer; }, p.backend->broadcast(list, options)};
}

Started message(const Peers& p, const Transfer<Tensor>& t) {
  const bool sends = t.op == KINORA_OP_SEND;
  const Tensor buffer = sends ? t.in.contiguous() : at::empty_like(t.in, at::MemoryFormat::Contiguous);
  std::vector<Tensor> list{bytes(buffer)};
  const int peer = static_cast<int>(t.peer), tag = static_cast<int>(t.tag);
  return {[buffer, sends] { return sends ? Tensor() : buffer; },
          sends ? p.backend->send(list, peer, tag) : p.backend->recv(list, peer, tag)};
}

Started barrier(const Peers& p) {
  c10d::BarrierOptions options;
  if (!p.device.is_cpu()) options.device = p.device;
  return {[] { return Tensor(); }, p.backend->barrier(options)};
}

const char* name_of(uint32_t op) {
  constexpr const char* names[] = {"sum",       "max",  "gather", "scatter-sum", "exchange",
                                   "broadcast", "send", "recv",   "barrier"};
  if (op > KINORA_OP_BARRIER)
    throw Error(KINORA_ERROR_UNSUPPORTED, "transfer number " + std::to_string(op) + " is unknown");
  return names[op];
}

// "recv #2 from rank 5 with tag 7", by world rank.
std::string message_name(const Peers& p, const Transfer<Tensor>& t, int64_t number) {
  const bool known = t.peer >= 0 && t.peer < p.size();
  return std::string(name_of(t.op)) + " #" + std::to_string(number) +
         (t.op == KINORA_OP_SEND ? " to rank " : " from rank ") +
         std::to_string(known ? p.members[static_cast<size_t>(t.peer)] : t.peer) + " with tag " +
         std::to_string(t.tag);
}

}  // namespace

Started start_transfer(const Peers& p, const Transfer<at::Tensor>& t) {
  switch (t.op) {
    case KINORA_OP_ALL_REDUCE:
      return reduce(p, t.in, c10d::ReduceOp::SUM);
    case KINORA_OP_ALL_REDUCE_MAX:
      return reduce(p, t.in, c10d::ReduceOp::MAX);
    case KINORA_OP_ALL_GATHER:
      return gather(p, t.in, t.dim);
    // Pieces are summed here in rank order: the same bits in every run, and half the traffic of a sum that is
    // split afterwards.
    case KINORA_OP_REDUCE_SCATTER:
      return all_to_all(p, t.in, t.dim,
                        [](const at::Tensor& all) { return all.sum(0, false, all.scalar_type()); });
    case KINORA_OP_ALL_TO_ALL:
      return all_to_all(p, t.in, t.dim, [to = t.dim2](const at::Tensor& all) {
        return to == 0 ? all.flatten(0, 1) : at::cat(all.unbind(0), to);
      });
    case KINORA_OP_BROADCAST:
      return broadcast(p, t.in, t.peer);
    case KINORA_OP_BARRIER:
      return barrier(p);
    default:
      return message(p, t);
  }
}

TransferNames::Name TransferNames::next(const Peers& p, const Transfer<at::Tensor>& t) {
  if (t.op == KINORA_OP_SEND || t.op == KINORA_OP_RECV) return {message_name(p, t, ++messages_), t.peer};
  return {std::string(name_of(t.op)) + " #" + std::to_string(++collectives_), -1};
}

void invalid_transfer(const Peers& p, const std::string& what, const std::string& why) {
  throw Error(KINORA_ERROR_INVALID, p.collective + ": " + what + ": " + why);
}

Transfer<at::Tensor> checked(const Peers& p, Transfer<at::Tensor> t, const std::string& what) {
  if (t.op == KINORA_OP_BARRIER) return t;
  if (!t.in.defined()) invalid_transfer(p, what, "it needs a tensor");
  t.in = t.in.detach();
  constexpr at::ScalarType sums[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                     at::kLong,  at::kInt,    at::kChar, at::kByte};
  const bool adds = t.op == KINORA_OP_ALL_REDUCE || t.op == KINORA_OP_ALL_REDUCE_MAX;
  if (adds && std::find(std::begin(sums), std::end(sums), t.in.scalar_type()) == std::end(sums))
    invalid_transfer(p, what, std::string("it cannot combine ") + at::toString(t.in.scalar_type()));
  const bool has_peer = t.op == KINORA_OP_BROADCAST || t.op == KINORA_OP_SEND || t.op == KINORA_OP_RECV;
  if (has_peer && (t.peer < 0 || t.peer >= p.size()))
    invalid_transfer(
        p, what, "there is no rank " + std::to_string(t.peer) + " in a group of " + std::to_string(p.size()));
  if (t.op == KINORA_OP_SEND || t.op == KINORA_OP_RECV) {
    if (t.peer == p.rank) invalid_transfer(p, what, "a rank cannot send to itself");
    if (t.tag < 0 || t.tag > std::numeric_limits<int>::max())
      invalid_transfer(p, what, "tag " + std::to_string(t.tag) + " is not in [0, 2^31)");
  }
  const bool cuts = t.op == KINORA_OP_REDUCE_SCATTER || t.op == KINORA_OP_ALL_TO_ALL;
  if (t.op != KINORA_OP_ALL_GATHER && !cuts) return t;
  t.dim = at::maybe_wrap_dim(t.dim, t.in.dim());
  if (t.op == KINORA_OP_ALL_TO_ALL) t.dim2 = at::maybe_wrap_dim(t.dim2, t.in.dim());
  if (cuts && t.in.size(t.dim) % p.size() != 0)
    invalid_transfer(p, what,
                     "dimension " + std::to_string(t.dim) + " of size " + std::to_string(t.in.size(t.dim)) +
                         " does not divide by " + std::to_string(p.size()) + " ranks");
  return t;
}

}  // namespace kinora

#include "plugins/collectives/c10d/transfers.hpp"

#include <ATen/ATen.h>
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
  const bool sends = t.op == KINORA_SEND;
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

}  // namespace

Started start_transfer(const Peers& p, const Transfer<at::Tensor>& t) {
  switch (t.op) {
    case KINORA_SUM:
      return reduce(p, t.in, c10d::ReduceOp::SUM);
    case KINORA_MAX:
      return reduce(p, t.in, c10d::ReduceOp::MAX);
    case KINORA_GATHER:
      return gather(p, t.in, t.dim);
    // Pieces are summed here in rank order: the same bits in every run, and half the traffic of a sum that is
    // split afterwards.
    case KINORA_SCATTER_SUM:
      return all_to_all(p, t.in, t.dim,
                        [](const at::Tensor& all) { return all.sum(0, false, all.scalar_type()); });
    case KINORA_EXCHANGE:
      return all_to_all(p, t.in, t.dim, [to = t.dim2](const at::Tensor& all) {
        return to == 0 ? all.flatten(0, 1) : at::cat(all.unbind(0), to);
      });
    case KINORA_BROADCAST:
      return broadcast(p, t.in, t.peer);
    case KINORA_BARRIER:
      return barrier(p);
    default:
      return message(p, t);
  }
}

}  // namespace kinora

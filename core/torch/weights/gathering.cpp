#include "core/torch/weights/gathering.hpp"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

// Row with which a rank describes a piece that it holds.
enum Column : int64_t { kParam, kShard, kShards, kFirst, kCount, kDtype, kColumns };

at::Tensor rows_of(const Holding& h) {
  std::vector<int64_t> rows;
  for (const auto& leaf : h.leaves)
    for (const auto& piece : leaf.pieces) {
      if (!leaf.tensor.defined()) continue;
      const auto& p = h.parameters.at(static_cast<size_t>(piece.param - 1));
      rows.insert(rows.end(), {piece.param, p.shard, p.shards, piece.first, piece.count,
                               static_cast<int64_t>(leaf.tensor.scalar_type())});
    }
  return at::tensor(rows, at::kLong);
}

}  // namespace

int64_t Gathering::Range::giver(int64_t to) const {
  if (std::binary_search(ranks.begin(), ranks.end(), to)) return to;
  return ranks[static_cast<size_t>(to) % ranks.size()];  // replicas share the work
}

std::vector<Gathering::Ranges> Gathering::ranges_of(const Holding& h, const std::vector<at::Tensor>& rows,
                                                    std::vector<at::ScalarType>& dtypes) {
  std::vector<Ranges> out(h.parameters.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    const auto* row = rows[rank].data_ptr<int64_t>();
    for (const auto* end = row + rows[rank].numel(); row < end; row += kColumns) {
      const auto at = static_cast<size_t>(row[kParam] - 1);
      auto& ranges = out.at(at);
      const auto dtype = static_cast<at::ScalarType>(row[kDtype]);
      if (!ranges.empty() && dtypes[at] != dtype)
        raise(KINORA_ERROR_FAILED, "'{}' is of dtype {} on one rank and {} on rank {}", h.parameters[at].name,
              c10::toString(dtypes[at]), c10::toString(dtype), rank);
      dtypes[at] = dtype;
      auto range = std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) {
        return r.cut.shard == row[kShard] && r.cut.shards == row[kShards] && r.piece.first == row[kFirst] &&
               r.piece.count == row[kCount];
      });
      if (range == ranges.end()) {
        const Piece piece{row[kParam], row[kFirst], row[kCount], 0};
        range = ranges.insert(ranges.end(), {h.parameters[at], piece, {}, {}});
        range->cut.shard = row[kShard], range->cut.shards = row[kShards];
      }
      range->ranks.push_back(static_cast<int64_t>(rank));
    }
  }
  return out;
}

void Gathering::note_own(const Holding& h, std::vector<Ranges>& by_param) {
  for (const auto& leaf : h.leaves)
    for (const auto& piece : leaf.pieces) {
      if (!leaf.tensor.defined()) continue;
      const auto at = static_cast<size_t>(piece.param - 1);
      for (auto& r : by_param[at])
        if (r.cut.shard == h.parameters[at].shard && r.piece.first == piece.first &&
            r.piece.count == piece.count)
          r.own = leaf.tensor, r.piece.offset = piece.offset;
    }
}

void Gathering::add(const Holding& h) {
  std::vector<at::ScalarType> dtypes(h.parameters.size(), at::kFloat);
  auto by_param = ranges_of(h, exchange_.gather(rows_of(h)), dtypes);
  note_own(h, by_param);
  for (size_t i = 0; i < by_param.size(); ++i) {
    const auto& p = h.parameters[i];
    if (by_param[i].empty()) continue;  // frozen parameters have no optimizer state on any rank
    int64_t count = 0;
    for (const auto& r : by_param[i]) count += r.piece.count;
    if (count != p.numel())
      raise(KINORA_ERROR_FAILED, "'{}': the ranks hold {} of its {} numbers", p.name, count, p.numel());
    items_.push_back({h.prefix + p.name, p.shape, dtypes[i]});
    ranges_.push_back(std::move(by_param[i]));
  }
}

int64_t Gathering::bytes(int64_t item, int64_t from, int64_t to) const {
  int64_t count = 0;
  for (const auto& r : ranges_[static_cast<size_t>(item)])
    if (r.giver(to) == from) count += r.piece.count;
  return count * static_cast<int64_t>(c10::elementSize(items_[static_cast<size_t>(item)].dtype));
}

// The elements that this rank sends for the item, in the order of the ranges.
at::Tensor Gathering::given(int64_t item, int64_t to) const {
  std::vector<at::Tensor> pieces;
  for (const auto& r : ranges_[static_cast<size_t>(item)])
    if (r.giver(to) == exchange_.rank())
      pieces.push_back(range_of(r.own, r.piece).to(at::kCPU).contiguous().view(at::kByte));
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces);
}

at::Tensor Gathering::collect(const std::vector<int64_t>& wanted) const {
  const int64_t me = exchange_.rank(), mine = wanted.at(static_cast<size_t>(me));
  std::vector<Exchange::Message> out, in;
  for (int64_t r = 0; r < exchange_.size(); ++r) {
    const int64_t theirs = wanted[static_cast<size_t>(r)];
    if (r == me) continue;
    if (theirs != kNone && bytes(theirs, me, r) > 0) out.push_back({r, given(theirs, r)});
    if (mine != kNone)
      if (const int64_t n = bytes(mine, r, me)) in.push_back({r, at::empty({n}, at::kByte)});
  }
  exchange_.swap(out, in);
  if (mine == kNone) return {};
  const auto& item = items_[static_cast<size_t>(mine)];
  auto whole = at::empty(item.shape, at::TensorOptions().dtype(item.dtype));
  std::vector<const std::byte*> next(static_cast<size_t>(exchange_.size()));
  for (const auto& message : in)
    next[static_cast<size_t>(message.peer)] = static_cast<const std::byte*>(message.bytes.data_ptr());
  for (const auto& r : ranges_[static_cast<size_t>(mine)]) {
    const auto giver = static_cast<size_t>(r.giver(me));
    if (r.own.defined()) {
      const auto own = range_of(r.own, r.piece).to(at::kCPU).contiguous();
      copy_to_whole(r.cut, r.piece, own.data_ptr(), whole);
    } else if (r.piece.count > 0) {
      copy_to_whole(r.cut, r.piece, next[giver], whole);
      next[giver] += static_cast<size_t>(r.piece.count) * whole.element_size();
    }
  }
  return whole;
}

}  // namespace kinora::core

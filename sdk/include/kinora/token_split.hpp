// Base of context-parallel links: the tokens of a sequence are split over the ranks of a group, in an
// order that the strategy chooses. For the pinned tier.
//
// B batch, N tokens of the sequence with padding, P ranks, D channels. Rank r holds positions [r N/P, (r + 1)
// N/P) of the order. Padding is at the end of the one-process order, with INDEX -1 in its table: no token
// sees it, and the host removes it from the result of gather().
#pragma once
#include <list>
#include <map>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/transfers.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Appends padding rows to a table: no token sees tokens of INDEX -1.
inline at::Tensor padded_table(const at::Tensor& table, int64_t padding) {
  if (padding == 0) return table;
  at::Tensor rows = at::zeros({table.size(0), padding, table.size(2)}, table.options());
  rows.select(2, KINORA_TOKEN_INDEX).fill_(-1);
  rows.select(2, KINORA_TOKEN_SAMPLE).fill_(-1);
  return at::cat({table, rows}, 1);
}

class TokenSplit : public Link<at::Tensor> {
 public:
  // multiple: divides the number of tokens of each rank, at least 1 (a tensor group below splits them again).
  TokenSplit(Group<at::Tensor> group, int64_t multiple)
      : Link(KINORA_LEVEL_CONTEXT), group_(group), multiple_(multiple) {}

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    if (group_.size() == 1) return next.sequence(x, spec, seq);
    const Split& split = split_of(spec);
    kinora_seq_spec local = spec;
    local.table = handle(split.narrowed);
    const int64_t padding = split.layout.table.size(1) - x.size(1);
    const at::Tensor whole = padding ? at::constant_pad_nd(x, {0, 0, 0, padding}) : x;
    const at::Tensor out = next.sequence(whole.index_select(1, split.mine), local, seq);
    keep(seq, split.layout);
    return out;
  }

  at::Tensor gather(const at::Tensor& x, kinora_seq seq) override {
    const at::Tensor own = next.gather(x, seq);
    return group_.size() == 1 ? own : shared(group_, own, 1).index_select(1, layout(seq).back);
  }

 protected:
  struct Layout {
    at::Tensor table;  // int64 [1 or B, N, columns], of all ranks' tokens in rank order
    at::Tensor back;   // int64 [N]: where each token of the one-process order is in the split order
    int64_t frames, rows, cols;
  };
  // The token at each position of the split order, int64 [N] on the table's device; a permutation. Default:
  // the one-process order.
  virtual at::Tensor order(const at::Tensor& table) const {
    return at::arange(table.size(1), table.options());
  }
  // Number of padding rows at the end, so that every rank holds the same number of tokens.
  virtual int64_t padding_of(int64_t tokens) const {
    const int64_t unit = group_.size() * multiple_;
    return (unit - tokens % unit) % unit;
  }
  const Layout& layout(kinora_seq seq) const {
    const auto it = layouts_.find(seq);
    if (it == layouts_.end())
      throw Error(KINORA_ERROR_INVALID,
                  "sequence " + std::to_string(seq) + " was not split by this strategy in this run");
    return it->second;
  }
  void keep(kinora_seq seq, Layout layout) {
    constexpr size_t most = 256;  // as many geometries as the base caches
    layouts_[seq] = std::move(layout);
    if (layouts_.size() > most)
      layouts_.erase(layouts_.begin()->first == seq ? std::next(layouts_.begin()) : layouts_.begin());
  }
  // This rank's part of a dimension that has all ranks' tokens in rank order.
  at::Tensor of_rank(const at::Tensor& all, int64_t dim) const {
    const int64_t n = all.size(dim) / group_.size();
    return all.narrow(dim, group_.rank() * n, n);
  }

  Group<at::Tensor> group_;
  int64_t multiple_;

 private:
  // How the tokens of a table are split. The host keeps one table for each geometry and rule, so it is made
  // once, and links and the base identify its tables by their address.
  struct Split {
    at::Tensor source;          // kept, so that its address identifies it
    at::Tensor mine, narrowed;  // this rank's positions, and their table
    Layout layout;
  };
  const Split& split_of(const kinora_seq_spec& spec) {
    const at::Tensor source = borrow<at::Tensor>(spec.table);
    for (const auto& s : splits_)
      if (s.source.data_ptr() == source.data_ptr() && s.source.sizes() == source.sizes() &&
          s.layout.frames == spec.frames && s.layout.rows == spec.rows && s.layout.cols == spec.cols)
        return s;
    const at::Tensor table = padded_table(source, padding_of(source.size(1))), places = order(table),
                     all = table.index_select(1, places);
    constexpr size_t most = 64;
    if (splits_.size() == most) splits_.pop_back();
    splits_.push_front({source,
                        of_rank(places, 0),
                        of_rank(all, 1),
                        {all, places.argsort(), spec.frames, spec.rows, spec.cols}});
    return splits_.front();
  }

  std::list<Split> splits_;
  std::map<kinora_seq, Layout> layouts_;
};

}  // namespace kinora

KINORA_SDK_END

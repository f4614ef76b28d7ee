// Rows that some ranks make for tokens that others hold: who makes which items, and the all-to-all of unequal
// pieces that carries their rows, and back their gradients. For the pinned tier.
//
// D channels. Bytes that a rank sends, for elements of e bytes: in a forward D e for each row that it makes and
// another rank holds, in a backward D e for each row that it holds and another rank made.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/autograd.hpp"
#include "kinora/strategy.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// The rank of each item: the most expensive first, each to the rank with the least load (Graham 1969: at most
// 4/3 of the optimum).
inline std::vector<int64_t> share_by_cost(const std::vector<double>& costs, int64_t ranks) {
  std::vector<size_t> dearest(costs.size());
  std::iota(dearest.begin(), dearest.end(), size_t{0});
  std::stable_sort(dearest.begin(), dearest.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<double> load(static_cast<size_t>(ranks));
  std::vector<int64_t> out(costs.size());
  for (const size_t i : dearest) {
    const auto least = std::min_element(load.begin(), load.end());
    out[i] = least - load.begin();
    *least += costs[i];
  }
  return out;
}

class RowTransfer {
 public:
  // By rank: rows of this rank's tensor that go there, and rows of the result that arrive from there.
  using Ways = std::vector<std::vector<int64_t>>;
  // made: rows of this rank's tensor. rows: of the result. One rank needs no group.
  RowTransfer(Group<at::Tensor> group, const Ways& send, const Ways& receive, int64_t made, int64_t rows)
      : kept_(std::make_shared<Kept>(Kept{group, {}, {}, made, rows})) {
    for (const auto& r : send) kept_->send.push_back(at::tensor(r, at::kLong));
    for (const auto& r : receive) kept_->receive.push_back(at::tensor(r, at::kLong));
  }

  // Items that occupy consecutive INDEX.
  struct Items {
    std::vector<int64_t> owner, index, rows;  // the rank that makes an item, its first INDEX, its length
  };
  // Each rank makes the rows of its items, item after item. held: int64 [ranks, n], the INDEX of the n
  // tokens of each rank; every rank that holds an INDEX gets its row. Throws Error(KINORA_ERROR_INVALID) if no
  // rank holds a row's INDEX, and for an item of fewer than 0 rows or of a negative INDEX.
  static RowTransfer to_holders(Group<at::Tensor> group, const Items& items, const at::Tensor& held) {
    const int64_t ranks = group.get() ? group.size() : 1, n = held.size(1), me = rank_in(group);
    if (held.size(0) != ranks)
      throw Error(
          KINORA_ERROR_INVALID,
          "place: the sequence has a table for each sample of its batch; use a batch of one packed row");
    std::vector<int64_t> made(static_cast<size_t>(ranks));
    std::vector<int64_t> first;  // row of an item's first token on its owner
    std::map<int64_t, size_t> by_index;
    size_t rows = 0;
    for (size_t i = 0; i < items.rows.size(); ++i) {
      if (items.rows[i] < 0 || (items.rows[i] > 0 && items.index[i] < 0))
        throw Error(KINORA_ERROR_INVALID, "place: item " + std::to_string(i) + " has " +
                                              std::to_string(items.rows[i]) + " rows from INDEX " +
                                              std::to_string(items.index[i]) +
                                              " on; give 0 rows or more, and an INDEX of a token, from 0 on");
      auto& row = made[static_cast<size_t>(items.owner[i])];
      first.push_back(std::exchange(row, row + items.rows[i]));
      if (items.rows[i] > 0) by_index[items.index[i]] = i;
      rows += static_cast<size_t>(items.rows[i]);
    }
    std::set<int64_t> found;  // INDEX; more than one rank may hold a token
    Ways send(made.size()), receive(made.size());
    const at::Tensor dense = held.to(at::kCPU).contiguous();
    const auto* index = dense.const_data_ptr<int64_t>();
    for (int64_t slot = 0; slot < ranks * n; ++slot) {
      const auto next = by_index.upper_bound(index[slot]);
      if (next == by_index.begin()) continue;
      const size_t item = std::prev(next)->second;
      const int64_t row = index[slot] - items.index[item], to = slot / n;
      if (row >= items.rows[item]) continue;
      found.insert(index[slot]);
      if (items.owner[item] == me) send[static_cast<size_t>(to)].push_back(first[item] + row);
      if (to == me) receive[static_cast<size_t>(items.owner[item])].push_back(slot % n);
    }
    if (found.size() < rows)
      throw Error(KINORA_ERROR_INVALID,
                  "place: " + std::to_string(rows - found.size()) +
                      " rows of the items are outside of the sequence, or two items overlap; "
                      "each row needs a token of its own");
    return {group, send, receive, made[static_cast<size_t>(me)], n};
  }

  int64_t made() const { return kept_->made; }
  // x [made, D] -> [rows, D], zeros where nothing arrives. A node on every rank, also where no row is sent or
  // received, since the others wait for its transfers: x must need a gradient on every rank or on none.
  at::Tensor operator()(const at::Tensor& x) const {
    using Tensors = std::vector<at::Tensor>;
    if (x.dim() != 2 || x.size(0) != kept_->made)
      throw Error(KINORA_ERROR_INVALID, "this rank makes " + std::to_string(kept_->made) + " rows, and " +
                                            c10::str(x.sizes()) + " is given; [" +
                                            std::to_string(kept_->made) + ", D] is expected");
    if (x.is_meta()) return at::empty({kept_->rows, x.size(1)}, x.options());
    return autograd_apply<at::Tensor>(
        {x}, 1,
        [k = kept_](const Tensors& in) {
          return Tensors{carry(k->group, in[0], k->send, k->receive, k->rows)};
        },
        [k = kept_](const Tensors& grad) {
          return Tensors{carry(k->group, grad[0].contiguous(), k->receive, k->send, k->made)};
        })[0];
  }

 private:
  struct Kept {
    Group<at::Tensor> group;
    std::vector<at::Tensor> send, receive;
    int64_t made, rows;
  };

  static int64_t rank_in(const Group<at::Tensor>& group) { return group.get() ? group.rank() : 0; }

  // Sum over ranks r of out[to[r]] = x[from of rank r]. The lower of two ranks sends first, so that transports that
  // block a send until it is received do not deadlock.
  static at::Tensor carry(const Group<at::Tensor>& group, const at::Tensor& x,
                          const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to,
                          int64_t rows) {
    const auto there = [&](const at::Tensor& index) { return index.to(x.device()); };
    const auto me = static_cast<size_t>(rank_in(group));
    std::vector<Started<at::Tensor>> coming(from.size()), going(from.size());
    for (size_t r = 0; r < from.size(); ++r)
      for (const bool sends : {r > me, r < me}) {
        if (r == me || (sends ? from : to)[r].numel() == 0) continue;
        const auto rank = static_cast<int64_t>(r);
        if (sends)
          going[r] = group.send(x.index_select(0, there(from[r])), rank, 0);
        else
          coming[r] = group.receive(at::empty({to[r].numel(), x.size(1)}, x.options()), rank, 0);
      }
    const at::Tensor out = at::zeros({rows, x.size(1)}, x.options());
    out.index_add_(0, there(to[me]), x.index_select(0, there(from[me])));
    for (size_t r = 0; r < from.size(); ++r)
      if (coming[r].pending()) out.index_add_(0, there(to[r]), coming[r].finish());
    for (auto& sent : going)
      if (sent.pending()) sent.finish();
    return out;
  }

  std::shared_ptr<Kept> kept_;
};

}  // namespace kinora

KINORA_SDK_END

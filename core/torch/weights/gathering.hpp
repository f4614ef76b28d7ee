// Whole tensors from what the ranks hold of them, each made on the rank that asks for it.
//
// All ranks meet once to learn which of them holds which numbers. From then on every rank knows who sends
// what to whom: each number travels once, as bytes (so every bit arrives, -0.0 and NaN among them), from one
// of the ranks that hold it, and not at all where the rank that asks holds it itself.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/torch/weights/exchange.hpp"
#include "core/torch/weights/holding.hpp"

namespace kinora::core {

class Gathering {
 public:
  explicit Gathering(const Exchange& exchange) : exchange_(exchange) {}
  // A meeting of all ranks, which give the same parameters. Throws Error(KINORA_FAILED) on every rank if some
  // numbers of a tensor are on no rank, or are of two dtypes.
  void add(const Holding& holding);

  // What was added, on every rank the same: the tensors of which any rank holds anything.
  struct Item {
    std::string name;
    std::vector<int64_t> shape;
    at::ScalarType dtype = at::kFloat;
  };
  const std::vector<Item>& items() const { return items_; }

  static constexpr int64_t kNone = -1;
  // A meeting of all ranks: wanted[r] is the item that rank r gets, or kNone. Returns this rank's: on the
  // CPU, contiguous, nobody else's; undefined if it gets none.
  at::Tensor collect(const std::vector<int64_t>& wanted) const;

 private:
  // Numbers of an item that one or more ranks hold alike.
  struct Range {
    Parameter cut;  // the parameter, by the shard that they are of
    Piece piece;
    std::vector<int64_t> ranks;
    at::Tensor own;  // the leaf, if this rank is one of them; `piece.offset` is in it
    int64_t giver(int64_t to) const;
  };
  using Ranges = std::vector<Range>;
  static std::vector<Ranges> ranges_of(const Holding&, const std::vector<at::Tensor>& rows,
                                       std::vector<at::ScalarType>& dtypes);
  static void note_own(const Holding&, std::vector<Ranges>& by_param);
  at::Tensor given(int64_t item, int64_t to) const;
  int64_t bytes(int64_t item, int64_t from, int64_t to) const;

  Exchange exchange_;
  std::vector<Item> items_;
  std::vector<Ranges> ranges_;  // by item
};

}  // namespace kinora::core

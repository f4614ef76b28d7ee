// Assembles whole tensors from the ranks' pieces, each on the rank that requests it.
//
// All ranks meet once to learn which of them holds which elements. From then on every rank knows all senders
// and receivers. Each element travels once, as bytes (so every bit is kept, also of -0.0 and NaN), from one
// of the ranks that hold it, and not at all if the requesting rank holds it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/torch/weights/exchange.hpp"
#include "core/torch/weights/weights.hpp"

namespace kinora::core {

class Gathering {
 public:
  explicit Gathering(const Exchange& exchange) : exchange_(exchange) {}
  // Collective over all ranks, which pass the same parameters. Throws Error(KINORA_ERROR_FAILED) on every
  // rank if some elements of a tensor are on no rank, or have two dtypes.
  void add(const Holding& holding);

  // The added tensors of which any rank holds a part, the same on every rank.
  struct Item {
    std::string name;
    std::vector<int64_t> shape;
    at::ScalarType dtype = at::kFloat;
  };
  const std::vector<Item>& items() const { return items_; }

  static constexpr int64_t kNone = -1;
  // Collective over all ranks. wanted[r] is the item that rank r gets, or kNone. Returns this rank's: on the
  // CPU, contiguous, not shared; undefined if it gets none.
  at::Tensor collect(const std::vector<int64_t>& wanted) const;

 private:
  // Elements of an item that one or more ranks hold identically.
  struct Range {
    Parameter cut;  // the parameter, with the shard that they belong to
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
  std::vector<Ranges> ranges_;  // indexed by item
};

}  // namespace kinora::core

// Multi-modal sequence parallelism (MM-SP of LongVILA, Chen et al. 2024, arXiv 2408.10188). Images are
// distributed to the ranks' vision encoders by cost, and the sequence of text and image tokens that they make
// to the ranks' language models by tokens. For the pinned tier.
//
// S tokens of the joined sequence, P ranks, D channels. A rank holds the tokens of the images that it encodes
// and ceil(S / P) of the joined sequence, never all. repack() sends each image token to the rank that holds
// its position, and its gradient back to the rank that encoded it, whose backward continues with it. Values
// that ranks share (weights, and images that all of them read) get partial sums, as everywhere
// (abi/context.h).
//
// Bytes that a rank sends, for elements of e bytes: in a forward D e for each token of its images whose
// position is on another rank, in a backward D e for each of its positions that another rank's image fills.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/row_transfer.hpp"
#include "kinora/strategy.hpp"

namespace kinora {

// A run of tokens of the joined sequence: text or one image.
struct MmSegment {
  int64_t tokens = 0;
  int64_t image = -1;  // number of the image, each once; -1: text
};

class MmShard {
 public:
  // The arguments are the same on every rank. costs: of the images, in any unit; empty: their tokens. The
  // sequence is padded to a multiple of the ranks. Throws Error(KINORA_ERROR_INVALID).
  MmShard(Group<at::Tensor> group, const std::vector<MmSegment>& sequence, std::vector<double> costs = {})
      : group_(group) {
    const auto sizes = sizes_of(sequence);
    if (costs.empty()) costs.assign(sizes.begin(), sizes.end());
    if (costs.size() != sizes.size())
      throw Error(KINORA_ERROR_INVALID, "mm-sp: " + std::to_string(costs.size()) + " costs are given for " +
                                            std::to_string(sizes.size()) + " images");
    owner_ = share_by_cost(costs, group.size());
    for (size_t i = 0; i < owner_.size(); ++i)
      if (owner_[i] == group.rank()) mine_.push_back(static_cast<int64_t>(i));
    place(sequence, sizes);
  }

  // The rank of each image.
  const std::vector<int64_t>& owner() const { return owner_; }
  // Images that this rank encodes, ascending.
  const std::vector<int64_t>& mine() const { return mine_; }
  // Index in the joined sequence of each of this rank's positions, int64: ascending, -1 for padding at the
  // end.
  const at::Tensor& positions() const { return positions_; }
  // Indices of this rank's text tokens among the sequence's text tokens, int64, ascending.
  const at::Tensor& text() const { return text_; }

  // This rank's part of [images, ...] that all ranks have.
  at::Tensor own(const at::Tensor& images) const {
    return images.index_select(0, at::tensor(mine_, at::kLong).to(images.device()));
  }
  // [tokens of mine(), image after image, D] and [tokens of text(), D] -> [positions, D], zeros for
  // padding. image_tokens must need a gradient on every rank or on none, also where it has no rows: ranks
  // wait for each other in its backward.
  at::Tensor repack(const at::Tensor& image_tokens, const at::Tensor& text_tokens) const {
    if (image_tokens.size(0) != made_ || text_tokens.size(0) != text_.size(0))
      throw Error(KINORA_ERROR_INVALID, "mm-sp: " + std::to_string(image_tokens.size(0)) +
                                            " image tokens and " + std::to_string(text_tokens.size(0)) +
                                            " text tokens are given; this rank has " + std::to_string(made_) +
                                            " and " + std::to_string(text_.size(0)));
    const at::Tensor none = at::zeros({1, image_tokens.size(1)}, image_tokens.options());
    return at::cat({text_tokens, (*carried_)(image_tokens), none}).index_select(0, order_.to(none.device()));
  }

 private:
  static std::vector<int64_t> sizes_of(const std::vector<MmSegment>& sequence) {
    std::vector<int64_t> sizes;
    for (const auto& s : sequence) {
      if (s.image < 0) continue;
      if (static_cast<size_t>(s.image) >= sizes.size()) sizes.resize(static_cast<size_t>(s.image) + 1, -1);
      auto& size = sizes[static_cast<size_t>(s.image)];
      if (size >= 0)
        throw Error(KINORA_ERROR_INVALID, "mm-sp: image " + std::to_string(s.image) + " has two places");
      size = s.tokens;
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] < 0)
        throw Error(KINORA_ERROR_INVALID, "mm-sp: image " + std::to_string(i) + " has no place");
    return sizes;
  }

  // The transfer of every token from the rank that makes it to the rank that holds its position.
  void place(const std::vector<MmSegment>& sequence, const std::vector<int64_t>& sizes) {
    const int64_t P = group_.size(), me = group_.rank();
    std::vector<int64_t> first(sizes.size());  // row of an image's first token on its owner
    for (size_t i = 0; i < sizes.size(); ++i)
      if (owner_[i] == me) first[i] = std::exchange(made_, made_ + sizes[i]);
    int64_t tokens = 0;
    for (const auto& s : sequence) tokens += s.tokens;
    const int64_t each = (tokens + P - 1) / P;
    std::vector<std::vector<int64_t>> send(static_cast<size_t>(P)), receive(static_cast<size_t>(P));
    std::vector<int64_t> positions(static_cast<size_t>(each), -1), text;
    int64_t at = 0, texts = 0, arrived = 0;
    std::vector<int64_t> place_of_text, place_of_image;
    for (const auto& s : sequence)
      for (int64_t i = 0; i < s.tokens; ++i, ++at) {
        const int64_t to = at / each, slot = at - me * each;
        const bool here = to == me;
        if (here) positions[static_cast<size_t>(slot)] = at;
        if (s.image < 0) {
          if (here) place_of_text.push_back(slot), text.push_back(texts);
          ++texts;
          continue;
        }
        const auto image = static_cast<size_t>(s.image);
        if (owner_[image] == me) send[static_cast<size_t>(to)].push_back(first[image] + i);
        if (here)
          receive[static_cast<size_t>(owner_[image])].push_back(arrived++), place_of_image.push_back(slot);
      }
    // Rows of cat(text, received images, one row of zeros) by position.
    const auto n_text = static_cast<int64_t>(text.size());
    std::vector<int64_t> order(static_cast<size_t>(each), n_text + arrived);
    for (size_t i = 0; i < place_of_text.size(); ++i)
      order[static_cast<size_t>(place_of_text[i])] = static_cast<int64_t>(i);
    for (size_t i = 0; i < place_of_image.size(); ++i)
      order[static_cast<size_t>(place_of_image[i])] = n_text + static_cast<int64_t>(i);
    const auto index = [](const std::vector<int64_t>& v) { return at::tensor(v, at::kLong); };
    positions_ = index(positions), text_ = index(text), order_ = index(order);
    carried_ = std::make_unique<RowTransfer>(group_, send, receive, made_, arrived);
  }

  Group<at::Tensor> group_;
  std::vector<int64_t> owner_, mine_;
  int64_t made_ = 0;  // image tokens that this rank encodes
  at::Tensor positions_, text_, order_;
  std::unique_ptr<RowTransfer> carried_;
};

}  // namespace kinora

// TransNet V2 (Soucek and Lokoc, 2020, arXiv 2008.04838): finds shot changes from frames of 48 x 27 pixels.
// Three blocks of dilated (2+1)D convolutions, combined with each frame's similarity to the 50 frames before
// and after it, by learnt features and by colour histograms.
//
// Shapes: T frames, H = 27, W = 48.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/tap_product.hpp"

namespace kinora::video::transnetv2 {

constexpr int64_t kHeight = 27, kWidth = 48, kFrameBytes = kHeight * kWidth * 3;

struct Weight {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Weight>;

constexpr uint64_t kLargestWeights = uint64_t{1} << 30;  // bytes

// Returns the float32 tensors of a safetensors file (huggingface/safetensors: 8 bytes of length, a JSON
// header, the tensors) by name, and ignores other types. MediaError names `source` and what is wrong.
Weights parse_weights(std::span<const uint8_t> bytes, const std::string& source);

// Names and shapes of the published weights.
const std::map<std::string, std::vector<int64_t>>& expected_weights();

// The packed matrices of a product, with its bias.
struct Layer {
  TapShape shape{};
  std::vector<float> packed, bias;
};

// Four parallel pairs of a spatial and a temporal convolution, at four dilations, with their batch
// normalisation. The spatial ones see the same rows: they are one product.
struct CellWeights {
  int64_t height = 0, width = 0, inputs = 0, filters = 0;
  Layer space;
  std::vector<Layer> time;  // by dilation
};

// [any-thread] Constant after construction.
class Network {
 public:
  // MediaError, which begins with `source` and names a tensor that is missing or has another
  // shape.
  Network(const Weights& weights, const std::string& source);

  std::vector<CellWeights> cells;  // two a block
  Layer projection, likeness, colours, hidden;
  struct Head {
    std::vector<float> weight;
    float bias = 0;
  } change, part;
};

// One video through the network: each frame enters once, and its answer follows after kDelay frames at most.
// The published pipeline instead takes windows of 100 frames, 50 apart; a sequence of 100 frames gives its
// numbers, a longer one those of one long window. Frames outside the sequence count as zeros, as there.
// [owner-thread]
class Sequence {
 public:
  static constexpr int64_t kBatch = 16;                // frames whose last layers are computed together
  static constexpr int64_t kDelay = 48 + 50 + kBatch;  // reach of the convolutions, of the similarity, batch

  explicit Sequence(const Network& network);
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // rgb: [27, 48, 3].
  void push(const uint8_t* rgb);
  void finish();

  // Answers so far, one a frame. change: the shot changes after this frame; part: this frame is part of a
  // change, hard or gradual. Probabilities.
  const std::vector<float>& change() const { return change_; }
  const std::vector<float>& part() const { return part_; }

 private:
  class Cell;
  class Around;
  void into(size_t cell, const float* frame);
  void pool(size_t block, const float* second);
  void answer(bool all);

  const Network& network_;
  std::vector<std::unique_ptr<Cell>> cells_;
  std::vector<std::deque<std::vector<float>>>
      first_;  // by block: first cells' frames that wait for the second
  std::vector<std::deque<std::vector<float>>> means_;  // by block: channels' means
  std::deque<std::vector<float>> pictures_;            // outputs of the last block
  std::unique_ptr<Around> features_, histograms_;
  std::vector<float> change_, part_;
};

}  // namespace kinora::video::transnetv2

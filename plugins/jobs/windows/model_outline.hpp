// Outline of a train job's model: the calls that one forward of one sample makes of its context. They are
// noted on the meta device, without memory and arithmetic, so a model of any size has an outline.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kinora/abi/context.h"

namespace kinora::core {

struct ModelOutline {
  // A call of linear() or of attention(). `tokens`: its input or its queries are tokens of the sequence;
  // otherwise they are data that all ranks share, such as text and conditioning.
  struct Linear {
    bool tokens;
    uint32_t role;  // of the weight
    int64_t rows, in, out;
  };
  struct Attention {
    bool tokens;
    std::optional<uint32_t> over;  // KINORA_OVER_*; nothing: no keys are tokens
    int64_t queries, shared_keys;  // shared_keys: those that are not tokens
    int64_t heads, kv_heads, head_size;
  };
  // Calls by the number of the block() that made them, in order; -1: outside blocks.
  struct Call {
    int64_t block;
    std::optional<Linear> linear;
    std::optional<Attention> attention;
  };

  std::string model;
  std::vector<Call> calls;
  std::map<int64_t, int64_t> parameters;  // number of them by block; -1: outside blocks
  int64_t blocks = 0;                     // embedding and head included
  int64_t width = 0;                      // channels of the stream between two blocks
  int64_t frames = 0, patches = 0;        // the sequence: frames of this many tokens
};

// Frames, rows and columns of a latent.
using LatentSize = std::array<int64_t, 3>;

}  // namespace kinora::core

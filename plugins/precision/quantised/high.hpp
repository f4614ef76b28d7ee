// Which layers of a model keep more bits.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::quantised {

struct Layer {
  std::string name;  // of its weight
  int64_t block;     // 0 the embedding, 1 to N, N + 1 the head; -1: outside blocks
};

// Which of them stay high, by these patterns:
//   embedding, head   outside blocks and in the first one; in the last one
//   first K, last K   of the N blocks between; K is a number, or a share such as 15%, rounded to nearest
//   others            names of weights, with or without .weight, where * is any text
// last_block: the head's. Throws Error(KINORA_ERROR_INVALID) for a name that no layer has.
std::vector<bool> high_layers(const std::vector<std::string>& patterns, const std::vector<Layer>&,
                              int64_t last_block);

// "x_embedder.weight, blocks.*.fc2.weight; all of block 1, 2, 4": names of layers, with * for the number if it
// is every layer of these names, or of whole blocks.
std::string text_of(const std::vector<Layer>&, const std::vector<bool>& chosen, int64_t last_block);

}  // namespace kinora::quantised

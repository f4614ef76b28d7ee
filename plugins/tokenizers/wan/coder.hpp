// One direction of the tokenizer over consecutive pieces of a clip: one latent frame at a time, so that
// memory does not depend on the length, and in tiles of the image if configured. A whole clip is a single
// piece, so a stream is bit-identical to a whole clip.
#pragma once
#include <vector>

#include "kinora/run.hpp"
#include "plugins/tokenizers/wan/network.hpp"

namespace kinora::wan {

struct Networks {
  Config config;
  Encoder encoder;
  Decoder decoder;
};

class Coder {
 public:
  Coder(const Networks& of, bool decoding) : of_(of), decoding_(decoding) {}
  // video [B, C, T, H, W] -> moments [B, 2 z, t, h, w], or latent [B, z, t, h, w] -> video. last: no piece
  // follows x, so no state is kept. An exception leaves the coder unchanged: Error(KINORA_ERROR_CANCELLED) before
  // the next latent frame of a tile once the call was asked to stop.
  at::Tensor push(const Run& call, const Ctx& ctx, const at::Tensor& x, bool last);

 private:
  struct Axis;  // how rows or columns are split
  Axis axis(int64_t dim, bool tiled) const;
  void check(const at::Tensor& x) const;
  // Passes a tile through the network, latent frame by latent frame.
  at::Tensor tile(const Run& call, const Ctx& ctx, History& h, const at::Tensor& x) const;
  at::Tensor latent_frame(const Ctx& ctx, History& h, const at::Tensor& piece) const;

  const Networks& of_;
  bool decoding_;
  bool first_ = true;
  std::vector<int64_t> shape_;      // shape of the pieces: batch, rows, columns
  std::vector<History> histories_;  // one for each tile, row by row
};

// Returns b, whose first n * unit positions along `dim` are blended with the last of a: n is `extent` or the
// smaller size.
at::Tensor blended(const at::Tensor& a, const at::Tensor& b, int64_t dim, int64_t extent, int64_t unit = 1);

}  // namespace kinora::wan

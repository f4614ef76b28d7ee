// One direction of the tokenizer over consecutive pieces of a clip: a latent frame at a time, so that memory
// is that of a frame whatever the length, and in tiles of the image if so configured. A whole clip is one
// piece, so that a stream's numbers are a whole clip's, bit for bit.
#pragma once
#include <vector>

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
  // video [B, C, T, H, W] -> moments [B, 2 z, t, h, w], or latent [B, z, t, h, w] -> video. last: nothing
  // comes after x, so nothing is kept. After an exception the coder is as it was.
  at::Tensor push(const Ctx& ctx, const at::Tensor& x, bool last);

 private:
  struct Axis;  // how rows or columns are cut
  Axis axis(int64_t dim, bool tiled) const;
  void check(const at::Tensor& x) const;
  // A tile through the network, latent frame by latent frame.
  at::Tensor tile(const Ctx& ctx, History& h, const at::Tensor& x) const;
  at::Tensor latent_frame(const Ctx& ctx, History& h, const at::Tensor& piece) const;

  const Networks& of_;
  bool decoding_;
  bool first_ = true;
  std::vector<int64_t> shape_;      // of the pieces: batch, rows, columns
  std::vector<History> histories_;  // of the tiles, row by row
};

// b, whose first n * unit places along `dim` fade in over the last of a: n is `extent` or what both have.
at::Tensor blended(const at::Tensor& a, const at::Tensor& b, int64_t dim, int64_t extent, int64_t unit = 1);

}  // namespace kinora::wan

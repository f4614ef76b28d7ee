// The videos of a forward as tokens: a batch of one size, or a packed row of several sizes, one behind the
// other (what NeMo calls sequence packing).
//
// B batch, n videos, C channels, T H W a latent's frames, rows, columns; F h w its tokens', F_i of video i; N
// all tokens of a row; D width.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "kinora/named.hpp"
#include "plugins/models/dit/config.hpp"
#include "plugins/models/dit/declare.hpp"

namespace kinora::dit {

// [B, C, F * pt, h * p, w * p] -> [B, F * h * w, p * p * pt * C], channel innermost (NeMo's order), and back.
at::Tensor patchify(const at::Tensor& latent, int64_t patch_time, int64_t patch_space);
at::Tensor unpatchify(const at::Tensor& x, int64_t F, int64_t h, int64_t w, int64_t patch_time,
                      int64_t patch_space);

class Videos {
 public:
  // latent [B, C, T, H, W]; or [1, C, sum of T * H * W] with the input `sizes`, int64 [n, 3]: T, H, W of
  // each. Throws kinora::Error, as `id`, for a latent that does not divide into patches.
  Videos(const Named<at::Tensor>& in, const at::Tensor& latent, const Config& c, const std::string& id);

  at::Tensor patches(const at::Tensor& latent) const;  // -> [B or 1, N, p * p * pt * C]
  at::Tensor latent(const at::Tensor& patches) const;  // the way back
  at::Tensor sequence(const Ctx& ctx, const at::Tensor& patches, kinora_seq& seq) const;

  bool packed() const { return packed_; }
  int64_t count() const { return count_; }  // B or n: what text and conditions have in front
  // Conditions [count, 1 or F, ...], of a packed row [n or sum of F_i, 1, ...]: whether these are such sizes,
  // and how to say so.
  bool fit(int64_t first, int64_t second) const;
  std::string needed(const std::string& channels) const;
  // Conditions that fit -> [B, 1 or F, ...] or [1, sum of F_i, ...]: rows that FRAME of a token counts.
  at::Tensor by_frame(const at::Tensor& conditions) const;

 private:
  int64_t frames() const;  // F, or the sum of F_i

  bool packed_;
  int64_t count_, patch_time_, patch_space_;
  std::vector<std::array<int64_t, 3>> tokens_;  // F, h, w of each size
};

// Which of the texts [n, L, ...] of a packed row, flattened to [1, n * L, ...], each token is of, and whether
// it may be seen: the k_table of its attention. mask: bool [n, L], undefined: all may.
at::Tensor text_table(const at::Tensor& text, const at::Tensor& mask);

}  // namespace kinora::dit

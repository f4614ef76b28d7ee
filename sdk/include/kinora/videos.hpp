// The videos of a forward as tokens, for models of the pinned tier: a batch of one size, or a packed row of
// several sizes, one after the other (NeMo: sequence packing, arXiv 2503.12964, section 3.1). Also their
// conditions, with a row for each video, each frame or each token.
//
// B batch, n videos, C channels, T H W a latent's frames, rows, columns; F h w its tokens', F_i h_i w_i of
// video i; N all tokens of a row, S the local ones; R rows of conditions, L tokens of text, D width.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

class Videos {
 public:
  using Size = std::array<int64_t, 3>;
  Videos() = default;
  // latent [B, C, T, H, W]; or [1, C, sum of T * H * W] with the input `sizes`, int64 [n, 3]: T, H, W of
  // each. patch: T, H, W of a token. Throws kinora::Error with `id` in front if a latent does not divide into
  // patches.
  Videos(const Named<at::Tensor>& in, const at::Tensor& latent, const Size& patch, std::string id);
  // Throws for a latent of more than largest[0] frames, [1] rows or [2] columns. table: of the STREAM tokens;
  // it accounts for frames that share their positions in time, as clean and noisy copies do.
  void refuse_above(const std::vector<int64_t>& largest, const at::Tensor& table) const;

  bool packed() const { return packed_; }
  int64_t count() const { return count_; }  // B or n: the first dimension of text and conditions
  const std::vector<Size>& tokens() const { return tokens_; }  // F, h, w of each size
  std::vector<Size> latents() const;                           // T, H, W of each size
  int64_t frames() const;                                      // F, or the sum of F_i
  int64_t all_tokens() const;                                  // F * h * w, or N

  // patchify: [B, C, T, H, W] of one size -> its tokens [B, F * h * w, D]. -> [B or 1, N, D]
  template <class Patchify>
  at::Tensor patches(const at::Tensor& latent, Patchify patchify) const;
  // The inverse. unpatchify: tokens [B, F * h * w, D] and their F, h, w -> [B, C, T, H, W].
  template <class Unpatchify>
  at::Tensor latent(const at::Tensor& x, Unpatchify unpatchify) const;
  at::Tensor sequence(const Context<at::Tensor>& ctx, const at::Tensor& patches, kinora_seq& seq) const;

  // Conditions have shape [count, 1, F or F * h * w, ...], or [n, sum of F_i or N, 1, ...] for a packed row:
  // whether a shape fits, and a description of the fitting shapes, followed by `channels`.
  bool fit(int64_t first, int64_t second) const;
  std::string needed(const std::string& channels = "") const;
  // The input `timestep`, [count] or as conditions, as conditions; throws kinora::Error if it does not fit.
  at::Tensor timestep(const Named<at::Tensor>& in) const;
  // Fitting conditions -> [B, R, ...], R 1 or F or F * h * w; or [1, R, ...], R the sum of F_i or N.
  at::Tensor rows(const at::Tensor& conditions) const;
  // Rows per frame -> rows per token, if R is their number: for rows that are added to others.
  at::Tensor spread(const at::Tensor& rows, int64_t R) const;
  // a + b, both [B, R, D], each with its own R.
  at::Tensor sum(const at::Tensor& a, const at::Tensor& b) const;
  // The row, of R, of each STREAM token: int64 [1 or B, S]; undefined if R is 1.
  at::Tensor row_of_token(const Context<at::Tensor>& ctx, kinora_seq seq, int64_t R) const;

  // The factor of time positions for rope_turns: `base` divided by the frames per second, [1] or [count].
  // table: of the tokens that are rotated.
  at::Tensor rate(const at::Tensor& fps, double base, const at::Tensor& table) const;

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(KINORA_ERROR_INVALID, id_ + ": " + what);
  }
  std::vector<Size> sizes_of(const Named<at::Tensor>& in, const at::Tensor& latent) const;
  static int64_t product(const Size& s) { return s[0] * s[1] * s[2]; }

  bool packed_ = false;
  int64_t count_ = 0;
  Size patch_{1, 1, 1};
  std::vector<Size> tokens_;
  std::string id_;
};

// The rows of x [B, R, D] at indices `row` [1 or B, S]: [B, S, D]; x, for all tokens, if it is undefined.
inline at::Tensor at_rows(const at::Tensor& x, const at::Tensor& row) {
  if (!row.defined()) return x;
  if (row.size(0) == 1) return x.index_select(1, row[0]);
  return x.gather(1, row.unsqueeze(-1).expand({-1, -1, x.size(2)}));
}

// Joins the texts [n, L, D] of a packed row to the keys of one row: text [1, n * L, D]. -> their table, for
// Attention::k_table: the sample of each token, and whether `mask`, bool [n, L] or undefined, makes it
// visible. Clears the mask. Each text gets hidden tokens at its end until their number is not that of the
// row's frames or tokens, so that the number of rows tells a link whose they are.
at::Tensor joined_text(const Videos& videos, at::Tensor& text, at::Tensor& mask);

inline Videos::Videos(const Named<at::Tensor>& in, const at::Tensor& latent, const Size& patch,
                      std::string id)
    : packed_(in.has("sizes")), patch_(patch), id_(std::move(id)) {
  for (const auto& [T, H, W] : sizes_of(in, latent)) {
    if (T < 1 || H < 1 || W < 1 || T % patch[0] || H % patch[1] || W % patch[2])
      refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " does not divide into patches of ", patch[0],
                      " x ", patch[1], " x ", patch[2]));
    tokens_.push_back({T / patch[0], H / patch[1], W / patch[2]});
  }
  count_ = packed_ ? static_cast<int64_t>(tokens_.size()) : latent.size(0);
}

inline std::vector<Videos::Size> Videos::sizes_of(const Named<at::Tensor>& in, const at::Tensor& x) const {
  if (!packed_) {
    if (x.dim() != 5 || !x.is_floating_point())
      refuse("latent must be a floating-point tensor [B, C, T, H, W]");
    return {{x.size(2), x.size(3), x.size(4)}};
  }
  const at::Tensor given = in["sizes"].to(at::kCPU, at::kLong).contiguous();
  if (given.dim() != 2 || given.size(0) < 1 || given.size(1) != 3)
    refuse(c10::str("sizes has shape ", given.sizes(), ", needed is [n, 3]: T, H, W of each video"));
  std::vector<Size> out;
  int64_t all = 0;
  for (int64_t i = 0; i < given.size(0); ++i) {
    const auto* s = given.data_ptr<int64_t>() + 3 * i;
    out.push_back({s[0], s[1], s[2]});
    if (s[0] < 1 || s[1] < 1 || s[2] < 1)
      refuse(c10::str("video ", i, " of sizes is ", s[0], " x ", s[1], " x ", s[2]));
    all += product(out.back());
  }
  if (x.dim() != 3 || x.size(0) != 1 || x.size(2) != all || !x.is_floating_point())
    refuse(c10::str("latent has shape ", x.sizes(), ", needed with these sizes is [1, C, ", all,
                    "], floating-point"));
  return out;
}

inline std::vector<Videos::Size> Videos::latents() const {
  std::vector<Size> out;
  for (const auto& [F, h, w] : tokens_) out.push_back({F * patch_[0], h * patch_[1], w * patch_[2]});
  return out;
}

inline void Videos::refuse_above(const std::vector<int64_t>& largest, const at::Tensor& table) const {
  const auto in_time = [&](int64_t T) {
    if (T <= largest[0] || table.is_meta() || table.numel() == 0) return T;
    return (table.select(2, KINORA_TOKEN_TIME).max().item<int64_t>() + 1) * patch_[0];
  };
  for (const auto& [T, H, W] : latents())
    if (in_time(T) > largest[0] || H > largest[1] || W > largest[2])
      refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " is larger than max_size, ", largest[0], " x ",
                      largest[1], " x ", largest[2], "; raise max_size"));
}

template <class Patchify>
at::Tensor Videos::patches(const at::Tensor& latent, Patchify patchify) const {
  if (!packed_) return patchify(latent);
  std::vector<at::Tensor> all;
  int64_t at = 0;
  for (const auto& size : latents()) {
    all.push_back(patchify(latent.narrow(2, at, product(size)).unflatten(2, {size[0], size[1], size[2]})));
    at += product(size);
  }
  return at::cat(all, 1);
}

template <class Unpatchify>
at::Tensor Videos::latent(const at::Tensor& x, Unpatchify unpatchify) const {
  std::vector<at::Tensor> all;
  int64_t at = 0;
  for (const auto& size : tokens_) {
    all.push_back(unpatchify(x.narrow(1, at, product(size)), size[0], size[1], size[2]));
    at += product(size);
  }
  if (!packed_) return all[0];
  for (auto& t : all) t = t.flatten(2);
  return at::cat(all, 2);
}

inline at::Tensor Videos::sequence(const Context<at::Tensor>& ctx, const at::Tensor& patches,
                                   kinora_seq& seq) const {
  const auto& [F, h, w] = tokens_[0];
  return packed_ ? ctx.packed(patches, tokens_, seq) : ctx.sequence(patches, F, h, w, seq);
}

inline int64_t Videos::frames() const {
  int64_t n = 0;
  for (const auto& t : tokens_) n += t[0];
  return n;
}

inline int64_t Videos::all_tokens() const {
  int64_t n = 0;
  for (const auto& t : tokens_) n += product(t);
  return n;
}

inline bool Videos::fit(int64_t first, int64_t second) const {
  const auto more = [&](int64_t R) { return R == frames() || R == all_tokens(); };
  return packed_ ? second == 1 && (first == count_ || more(first))
                 : first == count_ && (second == 1 || more(second));
}

inline std::string Videos::needed(const std::string& channels) const {
  const std::string front = packed_ ? "[" : c10::str("[", count_, ", ");
  return c10::str("[", count_, channels, "] or ", front, frames(), channels, "] or ", front, all_tokens(),
                  channels, "]");
}

inline at::Tensor Videos::timestep(const Named<at::Tensor>& in) const {
  const at::Tensor given = in["timestep"], t = given.dim() == 1 ? given.unsqueeze(1) : given;
  if (t.dim() != 2 || !fit(t.size(0), t.size(1)))
    refuse(c10::str("timestep has shape ", given.sizes(), ", needed is ", needed()));
  return t;
}

inline at::Tensor Videos::rows(const at::Tensor& v) const {
  if (!packed_) return v;
  if (v.size(0) == frames() || v.size(0) == all_tokens()) return v.transpose(0, 1);
  std::vector<int64_t> video;  // of each frame
  for (size_t i = 0; i < tokens_.size(); ++i)
    video.insert(video.end(), static_cast<size_t>(tokens_[i][0]), static_cast<int64_t>(i));
  return v.index_select(0, at::tensor(video, at::kLong).to(v.device())).transpose(0, 1);
}

inline at::Tensor Videos::spread(const at::Tensor& rows, int64_t R) const {
  if (rows.size(1) == 1 || rows.size(1) == R) return rows;
  std::vector<at::Tensor> out;
  int64_t at = 0;
  for (const auto& [F, h, w] : tokens_) {
    out.push_back(rows.narrow(1, at, F).repeat_interleave(h * w, 1));
    at += F;
  }
  return at::cat(out, 1);
}

inline at::Tensor Videos::sum(const at::Tensor& a, const at::Tensor& b) const {
  const auto R = std::max(a.size(1), b.size(1));
  return spread(a, R) + spread(b, R);
}

// A token's position is FRAME, ROW and COL, not INDEX, which counts from the first frame of a stream.
inline at::Tensor Videos::row_of_token(const Context<at::Tensor>& ctx, kinora_seq seq, int64_t R) const {
  if (R == 1) return {};
  const at::Tensor table = ctx.table(seq, Place::stream), frame = table.select(2, KINORA_TOKEN_FRAME);
  if (R == frames()) return frame;
  const at::Tensor row = table.select(2, KINORA_TOKEN_ROW), col = table.select(2, KINORA_TOKEN_COL);
  if (!packed_) return (frame * tokens_[0][1] + row) * tokens_[0][2] + col;
  std::vector<int64_t> first, width;  // of each frame: its first token, its columns
  int64_t at = 0;
  for (const auto& [F, h, w] : tokens_)
    for (int64_t i = 0; i < F; ++i, at += h * w) first.push_back(at), width.push_back(w);
  const auto of_token = [&](const std::vector<int64_t>& of_frame) {
    return at::tensor(of_frame, at::kLong)
        .to(frame.device())
        .index_select(0, frame.flatten())
        .view(frame.sizes());
  };
  return of_token(first) + row * of_token(width) + col;
}

inline at::Tensor Videos::rate(const at::Tensor& fps, double base, const at::Tensor& table) const {
  const at::Tensor out = base / fps.flatten().to(at::kDouble).unsqueeze(1);
  if (out.size(0) == 1) return out;
  if (out.size(0) != count_)
    refuse(c10::str("fps has shape ", fps.sizes(), ", needed is [1] or [", count_, "]"));
  return packed_ ? rows(out).index_select(1, table[0].select(1, KINORA_TOKEN_FRAME)) : out;
}

inline at::Tensor joined_text(const Videos& videos, at::Tensor& text, at::Tensor& mask) {
  const auto n = text.size(0);
  auto L = text.size(1);
  while (n * L == videos.frames() || n * L == videos.all_tokens()) ++L;
  if (const auto more = L - text.size(1); more > 0) {
    const at::Tensor all = mask.defined() ? mask : at::ones({n, L - more}, text.options().dtype(at::kBool));
    text = at::constant_pad_nd(text, {0, 0, 0, more});
    mask = at::constant_pad_nd(all, {0, more});
  }
  const auto o = text.options().dtype(at::kLong);
  const at::Tensor out = at::zeros({n, L, KINORA_TOKEN_COLUMNS}, o);
  out.select(2, KINORA_TOKEN_SAMPLE).copy_(at::arange(n, o).unsqueeze(1));
  if (mask.defined()) out.select(2, KINORA_TOKEN_INDEX).copy_(mask.to(at::kLong) - 1);
  text = text.flatten(0, 1).unsqueeze(0);
  mask = at::Tensor();
  return out.view({1, n * L, KINORA_TOKEN_COLUMNS});
}

}  // namespace kinora

KINORA_SDK_END

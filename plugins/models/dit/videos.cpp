#include "plugins/models/dit/videos.hpp"

#include <ATen/ATen.h>

namespace kinora::dit {

using at::Tensor;

Tensor patchify(const Tensor& x, int64_t pt, int64_t p) {
  const auto B = x.size(0), C = x.size(1), F = x.size(2) / pt, h = x.size(3) / p, w = x.size(4) / p;
  return x.reshape({B, C, F, pt, h, p, w, p})
      .permute({0, 2, 4, 6, 5, 7, 3, 1})
      .reshape({B, F * h * w, p * p * pt * C});
}

Tensor unpatchify(const Tensor& x, int64_t F, int64_t h, int64_t w, int64_t pt, int64_t p) {
  const auto B = x.size(0), C = x.size(2) / (pt * p * p);
  return x.reshape({B, F, h, w, p, p, pt, C})
      .permute({0, 7, 1, 6, 2, 4, 3, 5})
      .reshape({B, C, F * pt, h * p, w * p});
}

namespace {

int64_t product(const std::array<int64_t, 3>& s) { return s[0] * s[1] * s[2]; }

// T, H, W of each video.
std::vector<std::array<int64_t, 3>> sizes_of(const Named<Tensor>& in, const Tensor& x,
                                             const std::string& id) {
  const auto refuse = [&](const std::string& what) { throw Error(KINORA_INVALID, id + ": " + what); };
  if (!in.has("sizes")) {
    if (x.dim() != 5 || !x.is_floating_point())
      refuse("latent must be a floating-point tensor [B, C, T, H, W]");
    return {{x.size(2), x.size(3), x.size(4)}};
  }
  const Tensor given = in["sizes"].to(at::kCPU, at::kLong).contiguous();
  if (given.dim() != 2 || given.size(0) < 1 || given.size(1) != 3)
    refuse(c10::str("sizes has shape ", given.sizes(), ", needed is [n, 3]: T, H, W of each video"));
  std::vector<std::array<int64_t, 3>> out;
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

}  // namespace

Videos::Videos(const Named<Tensor>& in, const Tensor& latent, const Config& c, const std::string& id)
    : packed_(in.has("sizes")), patch_time_(c.patch_time), patch_space_(c.patch_space) {
  const auto refuse = [&](const std::string& what) { throw Error(KINORA_INVALID, id + ": " + what); };
  for (const auto& [T, H, W] : sizes_of(in, latent, id)) {
    if (T % c.patch_time || H % c.patch_space || W % c.patch_space)
      refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " does not divide into patches of ",
                      c.patch_time, " x ", c.patch_space, " x ", c.patch_space));
    if (c.learnable_pos_embed && (T > c.max_size[0] || H > c.max_size[1] || W > c.max_size[2]))
      refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " is larger than max_size, ", c.max_size[0],
                      " x ", c.max_size[1], " x ", c.max_size[2], "; raise max_size"));
    tokens_.push_back({T / c.patch_time, H / c.patch_space, W / c.patch_space});
  }
  count_ = packed_ ? static_cast<int64_t>(tokens_.size()) : latent.size(0);
}

Tensor Videos::patches(const Tensor& latent) const {
  if (!packed_) return patchify(latent, patch_time_, patch_space_);
  std::vector<Tensor> all;
  int64_t at = 0;
  for (const auto& [F, h, w] : tokens_) {
    const int64_t T = F * patch_time_, H = h * patch_space_, W = w * patch_space_;
    all.push_back(
        patchify(latent.narrow(2, at, T * H * W).unflatten(2, {T, H, W}), patch_time_, patch_space_));
    at += T * H * W;
  }
  return at::cat(all, 1);
}

Tensor Videos::latent(const Tensor& x) const {
  std::vector<Tensor> all;
  int64_t at = 0;
  for (const auto& [F, h, w] : tokens_) {
    all.push_back(unpatchify(x.narrow(1, at, F * h * w), F, h, w, patch_time_, patch_space_));
    at += F * h * w;
  }
  if (!packed_) return all[0];
  for (auto& t : all) t = t.flatten(2);
  return at::cat(all, 2);
}

Tensor Videos::sequence(const Ctx& ctx, const Tensor& patches, kinora_seq& seq) const {
  const auto& [F, h, w] = tokens_[0];
  return packed_ ? ctx.packed(patches, tokens_, seq) : ctx.sequence(patches, F, h, w, seq);
}

int64_t Videos::frames() const {
  int64_t n = 0;
  for (const auto& t : tokens_) n += t[0];
  return n;
}

bool Videos::fit(int64_t first, int64_t second) const {
  if (packed_) return second == 1 && (first == count_ || first == frames());
  return first == count_ && (second == 1 || second == frames());
}

std::string Videos::needed(const std::string& channels) const {
  return packed_ ? c10::str("[", count_, channels, "] or [", frames(), channels, "]")
                 : c10::str("[", count_, channels, "] or [", count_, ", ", frames(), channels, "]");
}

Tensor Videos::by_frame(const Tensor& v) const {
  if (!packed_) return v;
  if (v.size(0) == frames()) return v.transpose(0, 1);
  std::vector<int64_t> video;  // of each frame
  for (size_t i = 0; i < tokens_.size(); ++i)
    video.insert(video.end(), static_cast<size_t>(tokens_[i][0]), static_cast<int64_t>(i));
  return v.index_select(0, at::tensor(video, at::kLong).to(v.device())).transpose(0, 1);
}

Tensor text_table(const Tensor& text, const Tensor& mask) {
  const auto n = text.size(0), L = text.size(1);
  const auto o = text.options().dtype(at::kLong);
  const Tensor out = at::zeros({n, L, KINORA_TOKEN_COLUMNS}, o);
  out.select(2, KINORA_TOKEN_SAMPLE).copy_(at::arange(n, o).unsqueeze(1));
  if (mask.defined()) out.select(2, KINORA_TOKEN_INDEX).copy_(mask.to(at::kLong) - 1);
  return out.view({1, n * L, KINORA_TOKEN_COLUMNS});
}

}  // namespace kinora::dit

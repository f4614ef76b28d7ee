// Shots in training against their definition: the chunks of a video one after the other, as a generation
// makes them, each by a forward of the plain model with the text of its shot alone.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "core/torch/network/model.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/shots.hpp"

namespace kinora::core::shots_testing {

// Keys and values of the clean passes so far, with their gradients. The chain's rule hides those that a chunk
// does not see.
class KeptWithGradients final : public kinora::Link<at::Tensor> {
 public:
  KeptWithGradients() : Link(KINORA_LEVEL_CACHE) { skip_inherited<KeptWithGradients>(); }
  bool stores = false;
  void forget() { kept_.clear(); }
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override {
    if (!how.kv_seq || how.over == KINORA_OVER_SPACE) return next.attention(q, k, v, how);
    const auto after = [](const at::Tensor& a, const at::Tensor& b) {
      return a.defined() ? at::cat({a, b}, 1) : b;
    };
    Kept& before = kept_[how.name];
    const Kept all{after(before.k, k), after(before.v, v),
                   after(before.table, borrow<at::Tensor>(how.k_table))};
    kinora_attention longer = how;
    longer.k_table = handle(all.table);
    const at::Tensor out = next.attention(q, all.k, all.v, longer);
    if (stores) before = all;
    return out;
  }

 private:
  struct Kept {
    at::Tensor k, v, table;
  };
  std::map<std::string, Kept> kept_;
};

// A sample: latent and noise [1, C, T, H, W], levels [1, T], a text [1, l, D] for each shot.
struct ShotSample {
  at::Tensor latent, noise, levels;
  std::vector<at::Tensor> texts;
};

// The flow loss of all chunks, as the chunks of a generate job's `shots` see each other. The network has the
// link.
inline at::Tensor loss_by_chunks(Model& network, KeptWithGradients& kept, const FrameOptions& o,
                                 const ShotRule& how, const ShotSample& s) {
  const int64_t T = s.latent.size(2), all = T / o.chunk, each = all / static_cast<int64_t>(s.texts.size());
  std::vector<std::string> shots(s.texts.size(), nlohmann::json{{"prompt", ""}, {"chunks", each}}.dump());
  const ShotList list(shots_of(shots), how, 24, {o.chunk}, 1);
  kept.forget();
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (int64_t chunk = 0; chunk < all; ++chunk) {
    const int64_t first = chunk * o.chunk;
    const auto own = [&](const at::Tensor& t) { return t.narrow(t.dim() == 2 ? 1 : 2, first, o.chunk); };
    const at::Tensor x0 = own(s.latent), n = own(s.noise), level = own(s.levels),
                     wide = level.view({1, 1, -1, 1, 1}), text = s.texts[static_cast<size_t>(chunk / each)];
    const auto forward = [&](const at::Tensor& x, const at::Tensor& told) {
      network.chain().set_frames(list.at(generating_rule(o), first, o.chunk));
      return network.forward({{"latent", x}, {"timestep", told}, {"text", text}}).at(0);
    };
    sum = sum + (forward((1 - wide) * x0 + wide * n, 1000 * level) - (n - x0)).square().sum();
    kept.stores = true;
    forward(x0, at::zeros_like(level));
    kept.stores = false;
  }
  return sum / static_cast<double>(s.latent.numel());
}

}  // namespace kinora::core::shots_testing

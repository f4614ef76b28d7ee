// Linear layers and norms of Wan's blocks.
//
// B batch, S local tokens, D width.
#pragma once
#include <string>
#include <vector>

#include "kinora/videos.hpp"
#include "plugins/models/wan/rope.hpp"

namespace kinora::wan {

using Ctx = Context<at::Tensor>;

struct Linear {
  kinora_param weight = 0, bias = 0;
  // seq: x's, 0 if all ranks share x.
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, kinora_seq seq) const {
    return ctx.linear(x, weight, bias, seq);
  }
};

// LayerNorm with learnt weights.
struct Norm {
  kinora_param weight = 0, bias = 0;
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, double eps) const;
};

// Names a parameter and declares how it may be split.
class Declare {
 public:
  Declare(const Ctx& ctx, std::string prefix, int64_t block)
      : ctx_(ctx), prefix_(std::move(prefix)), block_(block) {}
  Declare in(const std::string& name) const { return {ctx_, prefix_ + name + ".", block_}; }
  // quantum: the head size where heads are split.
  kinora_param parameter(const std::string& name, std::vector<int64_t> shape, Init init,
                         Role role = Role::whole, int64_t quantum = 1) const;
  // Xavier uniform.
  Linear linear(const std::string& name, int64_t out, int64_t in, Role role = Role::whole,
                int64_t quantum = 1) const;
  Linear linear(const std::string& name, int64_t out, int64_t in, Init weight, Role role = Role::whole,
                int64_t quantum = 1) const;
  Norm norm(const std::string& name, int64_t size) const;
  const Ctx& context() const { return ctx_; }

 private:
  Ctx ctx_;
  std::string prefix_;
  int64_t block_;
};

// RMSNorm over the `width` channels of all heads; x is INNER, so some may be on other ranks. weight 0: x.
at::Tensor norm_across_heads(const Ctx& ctx, const at::Tensor& x, kinora_param weight, int64_t width,
                             double eps);

}  // namespace kinora::wan

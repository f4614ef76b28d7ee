// Cross-attention of a sample of several shots: each token sees the text of its own shot (column SHOT of its
// table), as in a generation, whose chunks are read with the prompt of their shot.
#pragma once
#include <list>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

// The keys of a cross-attention are the texts of `shots` shots in turn, of equally many tokens each, of which
// kv_valid says which may be seen. A link of one shot changes nothing.
class ShotTextLink final : public kinora::Link<at::Tensor> {
 public:
  explicit ShotTextLink(int64_t shots) : Link(kLevel), shots_(shots) { skip_inherited<ShotTextLink>(); }
  // Throws Error(KINORA_ERROR_UNSUPPORTED) for a model whose attention reads the text in another way.
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

 private:
  // Above the links that divide tokens: it changes tables alone.
  static constexpr uint32_t kLevel = KINORA_LEVEL_CONTEXT - 40;
  // The base identifies tables by their address, so that they must be the same for all layers. The given ones
  // are kept alive, so that their addresses identify them too.
  struct Tables {
    at::Tensor given_q, valid;
    int64_t keys;
    at::Tensor q, k;
  };
  const Tables& tables(const at::Tensor& q_table, const at::Tensor& valid, int64_t keys);
  Tables made(const at::Tensor& q_table, const at::Tensor& valid, int64_t keys) const;

  const int64_t shots_;
  std::list<Tables> known_;  // latest first
};

}  // namespace kinora::core

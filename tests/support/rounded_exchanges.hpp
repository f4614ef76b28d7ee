// One process that rounds what the ranks of cp-ulysses would exchange with `wire`.
#pragma once
#include "tests/support/wire_emulation.hpp"

namespace kinora::test {

// The attention of one process whose q, k and v, and then its result, are rounded as parts: what rank r has of the
// tokens and rank s gets of the heads is one part, rows are tokens, columns the heads of q, k and v side by side.
// level: where in the chain it does so.
class RoundsExchanges final : public Link<at::Tensor> {
 public:
  RoundsExchanges(int64_t ranks, std::string values, std::string gradients,
                  uint32_t level = KINORA_LEVEL_PRECISION)
      : Link(level), ranks_(ranks), values_(std::move(values)), gradients_(std::move(gradients)) {
    skip_inherited<RoundsExchanges>();
  }
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override {
    if (!how.kv_seq) return next.attention(q, k, v, how);
    const auto in = rounded({q, k, v});
    return rounded({next.attention(in[0], in[1], in[2], how)})[0];
  }

 private:
  // x: each [B, N, H, d].
  std::vector<at::Tensor> rounded(const std::vector<at::Tensor>& x) const {
    std::vector<std::vector<at::Tensor>> by_tokens(x.size());
    for (int64_t r = 0; r < ranks_; ++r) {
      std::vector<std::vector<at::Tensor>> by_heads(x.size());
      for (int64_t s = 0; s < ranks_; ++s) {
        std::vector<at::Tensor> columns;
        for (const auto& t : x)
          columns.push_back(
              t.chunk(ranks_, 1)[size_t(r)].chunk(ranks_, 2)[size_t(s)].flatten(2).flatten(0, 1));
        const at::Tensor part = sent(at::cat(columns, 1), values_, gradients_);
        int64_t from = 0;
        for (size_t i = 0; i < x.size(); from += columns[i++].size(1))
          by_heads[i].push_back(part.narrow(1, from, columns[i].size(1))
                                    .reshape({x[i].size(0), x[i].size(1) / ranks_, -1, x[i].size(3)}));
      }
      for (size_t i = 0; i < x.size(); ++i) by_tokens[i].push_back(at::cat(by_heads[i], 2));
    }
    std::vector<at::Tensor> out;
    for (const auto& parts : by_tokens) out.push_back(at::cat(parts, 1));
    return out;
  }
  int64_t ranks_;
  std::string values_, gradients_;
};

}  // namespace kinora::test

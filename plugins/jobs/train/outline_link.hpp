// Notes what a model asks of its context: parameters, and calls of linear() and attention() by block. The
// link is on top of the chain, so the shapes are those of one process, whatever links are below it.
#pragma once
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "plugins/jobs/windows/model_outline.hpp"

namespace kinora::core {

class OutlineLink final : public kinora::Link<at::Tensor> {
 public:
  OutlineLink() : Link(KINORA_LEVEL_METER) { skip_inherited<OutlineLink>(); }
  const ModelOutline& outline() const { return outline_; }

  kinora_param parameter(const kinora_param_spec& spec) override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;
  Tensors block(const kinora_block& b, const Tensors& in) override;
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;

 private:
  ModelOutline outline_;
  std::map<kinora_param, uint32_t> roles_;
  int64_t block_ = -1;  // the block that runs
};

}  // namespace kinora::core

// The host's link at the model's end of the chain: numbers the tokens, and adds the tables of the given
// sequences to attention.
#pragma once
#include <deque>

#include "core/torch/context/visibility.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

class RootLink final : public kinora::Link<at::Tensor> {
 public:
  // Tokens are padded to a multiple of token_multiple; leave() removes the padding.
  RootLink(const Frames& frames, at::Device device, int64_t token_multiple);

  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override;
  at::Tensor leave(const at::Tensor& x, kinora_seq seq) override;
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;
  // On the meta device tables still have their values, for the links; a model gets a meta tensor like its
  // own.
  at::Tensor table(kinora_seq seq, Place place) override;
  // To be called when the rule changes: tables are built anew.
  void forget_tables() { tables_.clear(); }

 private:
  struct Made {
    std::vector<VideoSize> samples;
    at::Tensor table;
  };
  // One tensor per geometry, so that links and the base recognise tables by their address.
  const at::Tensor& table_of(const std::vector<VideoSize>& samples, int64_t padding);

  const Frames& frames_;
  at::Device device_;
  int64_t token_multiple_;
  std::deque<Made> tables_;
  std::map<kinora_seq, int64_t> lengths_;  // without padding
};

}  // namespace kinora::core

// Turns captions into embeddings: a tokenizing stage, then an encoder model.
#pragma once
#include <memory>

#include "core/run/job.hpp"
#include "core/run/one_stage.hpp"
#include "core/torch/context/network.hpp"

namespace kinora::core {

class TextEncoder {
 public:
  struct Parts {
    std::string words, text;  // ids of the tokenizing stage and of the encoder
    Options words_options, text_options;
    std::vector<std::filesystem::path> weights;
    int64_t max_tokens = 0;
    bool pad = false;
  };
  TextEncoder(Runtime&, const Parts&, at::Device device = at::kCPU,
              std::vector<const kinora_link*> links = {});
  // From an encode job's slots words and text and its options text_weights, max_tokens and pad_text.
  // links: follow the encoder; all their ranks must then call it together.
  TextEncoder(JobContext&, const JobSpec& encode, at::Device device = at::kCPU,
              std::vector<const kinora_link*> links = {});
  // [L, D] float32 on the CPU: one embedding per token; with pad_text, L is max_tokens and the rest is zero.
  at::Tensor operator()(const std::string& text);

 private:
  OneStage words_;
  std::unique_ptr<Network> network_;
  at::Device device_;
  int64_t max_tokens_;
  bool pad_;
};

}  // namespace kinora::core

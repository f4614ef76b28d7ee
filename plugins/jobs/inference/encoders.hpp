// Turns captions and pictures into embeddings. Encoders run without gradients; results are on the CPU.
#pragma once
#include <memory>
#include <vector>

#include "core/run/job.hpp"
#include "core/torch/network/model.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/curation/search/caption_encoder.hpp"
#include "plugins/jobs/inference/parts.hpp"

namespace kinora::core {

// Throws Error(KINORA_ERROR_DATA), which names `what` and the weights it was made with, if a value is NaN or
// infinite.
void require_finite(const at::Tensor& made, const std::string& what, const WeightsPaths& weights);

// A tokenizing stage, then an encoder model.
class TextEncoder {
 public:
  struct Parts {
    std::string words, text;  // ids of the tokenizing stage and of the encoder
    Options words_options, text_options;
    std::vector<std::filesystem::path> weights;
    int64_t max_tokens = 0;
    bool pad = false;
  };
  // links: follow the encoder; all their ranks must then call it together.
  TextEncoder(Runtime&, const Parts&, at::Device device = at::kCPU,
              std::vector<const kinora_link*> links = {});
  // From an encode job's slots words and text and its options text_weights, max_tokens and pad_text.
  static Parts parts_of(const JobSpec& encode);
  TextEncoder(const JobView&, const JobSpec& encode, at::Device device = at::kCPU,
              std::vector<const kinora_link*> links = {});
  // [L, D] float32: one embedding per token; with pad_text, L is max_tokens and the rest is zero. Text that a
  // program saved in another encoding is converted (utf8_text). whose: for messages, such as the warning that
  // the end of a long text is cut off. Throws Error(KINORA_ERROR_DATA) if it is not text.
  at::Tensor operator()(const std::string& text, const std::string& whose = "a text");
  Model& network() { return *network_; }

 private:
  void note_cut(const std::string& whose, int64_t all, int64_t kept);

  int64_t cut_ = 0;  // texts whose end was cut off
  OneStage words_;
  std::unique_ptr<Model> network_;
  at::Device device_;
  int64_t max_tokens_;
  bool pad_;
  std::string id_;
  WeightsPaths weights_;
};

// The tokens of an image encoder such as CLIP's.
class ImageEncoder {
 public:
  // Throws Error(KINORA_ERROR_INVALID) for a model that reads no image.
  ImageEncoder(Runtime&, const Part&, const ChainOptions& = {});
  // From a job's slot image_encoder and its option image_encoder_weights.
  static Part part_of(const JobSpec& job);
  ImageEncoder(const JobView&, const JobSpec& job, const ChainOptions& = {});
  // Throws the constructors' errors before anything is opened; returns the edge length of its pictures.
  static int64_t require(Runtime&, const Part&);
  // uint8 [H, W, 3] -> [L, D] float32.
  at::Tensor operator()(const at::Tensor& frame);
  Model& network() { return *network_; }

 private:
  at::Device device_;
  int64_t size_;
  std::string id_;
  WeightsPaths weights_;
  std::unique_ptr<Model> network_;
};

// Vectors of captions and of `kinora search` queries: the mean of a text's token embeddings [L, D], scaled to
// length 1, as sentence-transformers computes it for MiniLM.
class CaptionVectors {
 public:
  CaptionVectors(Runtime&, const CaptionEncoder&);
  std::vector<float> operator()(const std::string& text);

 private:
  TextEncoder encoder_;
};

}  // namespace kinora::core

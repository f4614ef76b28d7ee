// The check of every kind of job that holds tensors, and what these checks share. Networks are made on the
// meta device: their own rules hold there, and nothing is allocated.
#pragma once
#include <memory>
#include <optional>

#include "plugins/jobs/training/options/training.hpp"
#include "core/run/job_check.hpp"
#include "core/torch/context/network.hpp"
#include "plugins/jobs/training/generating/parts.hpp"

namespace kinora::core {

void check_train_tokenizer(JobCheck&);
void check_encode(JobCheck&);
void check_train(JobCheck&);
void check_generate(JobCheck&);

// What a train job's `lora` and `adapter` ask for; throws Error(KINORA_INVALID).
std::optional<LoraOptions> lora_of(const TrainOptions&);
// An adapter is of weights; throws Error(KINORA_INVALID).
void require_base(const TrainOptions&);

// Samples as an encode job leaves them. What is not known is 0.
struct Encoded {
  std::string tokenizer;
  std::vector<int64_t> shape;  // [C, t, h, w]; of codes [t, h, w]
  int64_t codes = 0;           // size of their vocabulary
  int64_t text_size = 0;
  bool of_codes() const { return shape.size() == 3; }
};
// Of the encode job above; ahead of it, what its options will make. Nothing if there is none, or if it cannot
// be known: that job's own check says why.
std::optional<Encoded> encoded_for(const JobCheck&);

std::unique_ptr<Network> on_meta(const JobView&, const ComponentUse&, std::optional<LoraOptions> lora = {});
// The option's device is one of this machine.
void check_device(JobCheck&);
// Threads of a crop's or window's size: each that the tokenizer cannot divide is a problem; the latent's t,
// h, w.
std::optional<std::vector<int64_t>> check_size(JobCheck&, const kinora_tokenizer_info&,
                                               const std::string& tokenizer, int64_t frames, int64_t height,
                                               int64_t width);
// Weights that are a safetensors file, a folder of them or TorchScript archives: those that the option gives.
void check_weights(JobCheck&, const std::string& option, const ComponentUse&);
void check_weights(JobCheck&, const std::string& option, const ComponentUse&, const WeightsPaths&);
// The tensors of those weights that are there already are the network's, by name and shape.
void check_fit(JobCheck&, const std::string& option, Network&, const WeightsPaths&);
// Batch, device, parallel strategies and first weights of a training.
void check_training(JobCheck&, const OptimizerOptions&, const ComponentUse& trained);
// What the strategies refuse on the ranks of the launch: their layout, a step of so many microbatches (0: the
// job has no steps) and the network, which is null where it is wrong by itself.
void check_layout(JobCheck&, const ComponentUse* network, const std::optional<LoraOptions>& lora,
                  int64_t microbatches);
// The slots `text` and `words` of this job, with their weights.
void check_text(JobCheck&);
void check_image_encoder(JobCheck&);
// One forward of a model over samples of this shape, as its job asks for it: problems that the model itself
// finds. by_frame: with a noise level a frame.
void check_forward(JobCheck&, Network& model, const ComponentUse&, const Encoded&, bool noisy,
                   bool by_frame = false);

}  // namespace kinora::core

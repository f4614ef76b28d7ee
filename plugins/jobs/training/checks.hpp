// The check that all jobs with tensors run, and its shared parts. Networks are built on the meta device:
// their own checks run there, and nothing is allocated.
#pragma once
#include <memory>
#include <optional>

#include "core/run/job_check.hpp"
#include "core/torch/context/network.hpp"
#include "plugins/jobs/training/generating/parts.hpp"
#include "plugins/jobs/training/live/window_size.hpp"
#include "plugins/jobs/training/options/training.hpp"

namespace kinora::core {

void check_train_tokenizer(JobCheck&);
void check_encode(JobCheck&);
void check_train(JobCheck&);
void check_generate(JobCheck&);

// Checks a train job's `lora` and `adapter`; throws Error(KINORA_ERROR_INVALID).
std::optional<LoraOptions> lora_of(const TrainOptions&);
// Checks that an adapter has weights to adapt; throws Error(KINORA_ERROR_INVALID).
void require_base(const TrainOptions&);

// Form of the samples that an encode job writes. Unknown values are 0.
struct Encoded {
  std::string tokenizer;
  std::vector<int64_t> shape;  // [C, t, h, w]; for codes [t, h, w]
  int64_t codes = 0;           // size of the vocabulary
  int64_t text_size = 0;
  size_t sizes = 1;  // of windows; `shape` is of the first
  bool of_codes() const { return shape.size() == 3; }
};
// The data of the earlier encode job, or what its options will make if it has not run. Nothing if there is no
// such job, or if this cannot be known: that job's own check reports why.
std::optional<Encoded> encoded_for(const JobCheck&);

std::unique_ptr<Network> on_meta(const JobView&, const ComponentUse&, std::optional<LoraOptions> lora = {});
// Checks that the option's device exists on this machine.
void check_device(JobCheck&);
// Checks a crop's or window's size: each dimension that the tokenizer cannot divide is a problem. Returns the
// latent's t, h, w.
std::optional<std::vector<int64_t>> check_size(JobCheck&, const kinora_tokenizer_info&,
                                               const std::string& tokenizer, int64_t frames, int64_t height,
                                               int64_t width);
// Checks that the given weights are a safetensors file, a folder of them or TorchScript archives.
void check_weights(JobCheck&, const std::string& option, const ComponentUse&);
void check_weights(JobCheck&, const std::string& option, const ComponentUse&, const WeightsPaths&);
// Checks that the tensors of existing weights match the network by name and shape.
void check_fit(JobCheck&, const std::string& option, Network&, const WeightsPaths&);
// Checks batch, device, parallel strategies and initial weights of a training.
void check_training(JobCheck&, const OptimizerOptions&, const ComponentUse& trained);
// Checks that the strategies accept the ranks of the launch: the layout, a step of this many microbatches (0:
// the job has no steps) and the network, which is null if it is invalid itself.
void check_layout(JobCheck&, const ComponentUse* network, const std::optional<LoraOptions>& lora,
                  int64_t microbatches);
// The precision's option `until`, the step from which on all layers are in many bits; 0: it has none, or none is given.
int64_t until_step(const JobSpec&);
// Checks the slots `text` and `words` of this job with their weights.
void check_text(JobCheck&);
void check_image_encoder(JobCheck&);
// Checks the slot `transforms`, which needs a table of data.
void check_transforms(JobCheck&);
// Checks that the crops among them fit windows of these sizes, and leave what the tokenizer divides; of several sizes
// each must stay as it is.
void check_crops(JobCheck&, const kinora_tokenizer_info&, const std::string& tokenizer,
                 const std::vector<WindowSize>& sizes);
// Runs one forward of a model on samples of this shape, with the job's inputs, and reports the problems that
// the model finds. by_frame: with one noise level per frame.
void check_forward(JobCheck&, Network& model, const ComponentUse&, const Encoded&, bool noisy,
                   bool by_frame = false);

}  // namespace kinora::core

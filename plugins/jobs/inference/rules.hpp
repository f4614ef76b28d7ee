// Rules for the options of jobs with tokenizers and models, checked before a run starts and by the job
// itself. Each throws Error(KINORA_ERROR_INVALID) that names the option.
#pragma once
#include "core/run/job.hpp"
#include "kinora/abi/tokenizer.h"
#include "plugins/jobs/inference/generate_options.hpp"

namespace kinora::core {

// pixels / factor; the error says that `option` must be a multiple of it for `by`, and the nearest values.
int64_t require_divided(const char* option, int64_t pixels, int64_t factor, const std::string& by);
// Latents in a token of the model along time (0), rows (1) or columns (2); 1 for a model without such an option.
int64_t patch_of(const ComponentUse& model, size_t dimension);
// Latent frames, rows and columns of a video of this size. Frames are 1 + n * info.time.
int64_t latent_frames(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t frames);
// The frames of the shortest whole latent that has this many; 0 stays 0.
int64_t whole_frames(const kinora_tokenizer_info& info, int64_t frames);
int64_t latent_rows(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t height);
int64_t latent_columns(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t width);
// A requested size in pixels; 0: as in training.
struct RequestedSize {
  int64_t frames = 0, height = 0, width = 0;
};
// [C, t, h, w]: the encoded `shape` (empty: nothing was encoded; [t, h, w] for codes) with the requested
// sizes.
std::vector<int64_t> latent_shape(const kinora_tokenizer_info& info, const std::string& tokenizer,
                                  std::vector<int64_t> shape, const RequestedSize& size);

// The given frames of a video to continue, in a latent [C, t, h, w].
void require_condition_frames(const kinora_tokenizer_info& info, const std::string& tokenizer, int64_t frames,
                              const std::vector<int64_t>& latent);

// The loss of the model's training, which is half of the denoiser; a model of the job's own names it.
const ComponentUse& loss_of(const JobView& job);
// The job that has the slots of a text or image encoder: this job, or the job that encoded the training set;
// null: none.
const JobSpec* source_of(const JobView& job, const char* slot);
// Whether a train job's samples have given frames; with teacher forcing, every chunk but the first has.
bool is_trained_with_frames(const JobSpec& train);

// Why no cache of keys and values is possible under the job's strategies: below the link of one of them an attention
// has a part of a sequence. "" if one is.
std::string why_sequences_are_divided(const JobView& job);

// A model that reads `codes` needs a tokenizer that makes them, and vice versa.
void require_one_kind(const ComponentSpec& model, const std::string& tokenizer, bool makes_codes);
// Decided by the model's manifest.
bool takes_input(const ComponentSpec& model, const std::string& input);
// A named condition must be one that the model takes.
void require_signal(const ComponentSpec& model, const Options& its, const std::string& name);
// guidance_interval must be empty or two rising noise levels.
void require_interval(const GenerateOptions& options);
// The set options that have no effect on a model that draws codes one by one (of_codes), or on one that
// denoises.
std::vector<const char*> of_other_kind(const GenerateOptions& options, bool of_codes);

}  // namespace kinora::core

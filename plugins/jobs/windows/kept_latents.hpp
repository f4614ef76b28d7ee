// Encoded windows of a table of data on a local disk, so that a window that is taken again is neither decoded nor
// encoded. Any number of processes may share the folder (loading/sample_cache.hpp).
//
// An entry's name is the SHA-256 of the tokenizer (its component, options and the digest of its weights), of the
// image encoder, of the options that change a window, of the clip's fields but for its caption and facts, and of
// the window's first frame and size. It contains a line of JSON, [[name, dtype, shape], ...], and the numbers.
#pragma once
#include <atomic>
#include <optional>
#include <string>

#include "core/run/job.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/sample.hpp"
#include "plugins/jobs/loading/sample_cache.hpp"
#include "plugins/jobs/windows/encode_options.hpp"
#include "plugins/jobs/windows/window_size.hpp"

namespace kinora::core {

// Throws Error(KINORA_ERROR_INVALID) if a job keeps latents and cannot find one again.
void require_kept_latents(const JobView& encode, const EncodeOptions&);

class KeptLatents {
 public:
  // encode: the job, with the option latent_cache. Reads the weights once for their digest.
  KeptLatents(const JobView& encode, const EncodeOptions& options);

  // first: of the clip's frames.
  std::string name_of(const Sample& clip, int64_t first, const WindowSize& size) const;
  // Nothing if they are not there or damaged.
  std::optional<NamedTensors> find(const std::string& name);
  // tensors: on the CPU.
  void keep(const std::string& name, const NamedTensors& tensors);
  // [any-thread] How often find() found them.
  uint64_t hits() const { return hits_; }

 private:
  std::string maker_;  // what a latent depends on besides the clip and the window
  SampleCache cache_;
  std::atomic<uint64_t> hits_{0};
};

}  // namespace kinora::core

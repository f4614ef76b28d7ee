// The clips of a shard job as tensors, decoded on demand and cached up to a memory limit; and their frames as
// the inputs of networks.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <set>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"
#include "core/torch/media/streaming.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/curation/webdataset.hpp"

namespace kinora::core {

// The share of the picture that stage/video.read cut off to fill the height and width of its options; 0: nothing.
double cut_off(const Sample& read);
// That as a warning's text. of: the file or the sample.
std::string cut_off_text(const std::string& of, double share, int64_t height, int64_t width);

// Warns of samples of which much is cut off: of the first ten one by one, in the end of how many there were.
class CutOffs {
 public:
  explicit CutOffs(std::string job) : job_(std::move(job)) {}
  ~CutOffs();
  CutOffs(const CutOffs&) = delete;
  CutOffs& operator=(const CutOffs&) = delete;
  // read: a sample with its frames; height, width: of the window that it fills.
  void note(const Sample& read, int64_t height, int64_t width);

 private:
  std::string job_;
  std::set<std::string> keys_;
};

// Used by one thread at a time.
class Clips {
 public:
  // folder: the shard job's, or a URI. read_options: those of stage/video.read, with height and width.
  // memory: bytes of decoded frames that are kept. Throws Error(KINORA_ERROR_DATA) for a folder without
  // samples.
  Clips(JobContext&, const std::filesystem::path& folder, const json& read_options, int64_t memory);

  int64_t size() const { return static_cast<int64_t>(index_.size()); }
  const std::string& key(int64_t i) const { return index_[static_cast<size_t>(i)].key; }
  // In UTF-8, whatever program saved it. Nothing if it is not text, which counts as try_frames() does.
  std::optional<std::string> try_caption(int64_t i);
  // The clip's JSON with fact `fps`, measured if the JSON lacks it; null if it has neither.
  json facts(int64_t i);
  // Frames per second of the first clip; 24 if it is a picture.
  double fps();
  // uint8 [T, H, W, 3], RGB. Shared with the cache: must not be written.
  at::Tensor frames(int64_t i);
  // As frames(), but returns an undefined tensor for a clip that cannot be decoded: a warning gives the
  // reason and failed() counts it, each clip once.
  at::Tensor try_frames(int64_t i);
  // Number of frames of a clip of any length. One longer than the reading stage's `memory` is counted without
  // keeping it. Nothing if try_frames() returns none.
  std::optional<int64_t> try_length(int64_t i);
  // Frames [first, first + count) of such a clip, decoded together with the following ones up to `memory`.
  at::Tensor frames(int64_t i, int64_t first, int64_t count);
  int64_t failed() const { return static_cast<int64_t>(failed_.size()); }
  // Error to throw if the job can use no clip.
  Error none_usable(int64_t too_short, int64_t failed, int64_t frames) const;

 private:
  Sample sample(int64_t i);
  int64_t counted(int64_t i);
  at::Tensor frames_of(const Sample& read);
  // Throws Error(KINORA_ERROR_DATA) for damage in this clip; damage elsewhere in its source video does not
  // matter.
  void require_whole(int64_t i, const Sample& read);
  // f of clip i; nothing if it fails, which is logged and counted.
  template <class F>
  auto tried(int64_t i, F f) -> decltype(f());
  // The most recently decoded frames of a long clip.
  struct Block {
    int64_t clip = -1, first = 0;
    at::Tensor frames;
  };
  Runtime& runtime_;
  std::vector<WebDatasetEntry> index_;
  json read_options_;
  OneStage read_, probe_;
  Block block_;
  int64_t memory_, used_ = 0;
  std::map<int64_t, at::Tensor> cache_;
  std::set<int64_t> failed_;
  std::string job_;
  CutOffs cut_offs_;
  std::list<int64_t> order_;  // oldest first
};

// Location of a job's clips: the folder or URI among its own inputs, else the nearest shard job's folder,
// else the input of its train-tokenizer job. Throws kinora::Error.
std::filesystem::path shards_of(const JobView& job);

// Input of CLIP's image encoders: frame uint8 [H, W, 3] -> [1, 3, size, size] float32, shorter edge scaled to
// `size` with Pillow's bicubic filter, centre crop, normalised with CLIP's mean and deviation (transformers'
// CLIPImageProcessor).
at::Tensor clip_image(const at::Tensor& frame, int64_t size);
// Adds frames uint8 [T, H, W, 3] to the sample, for stage/video.write.
void set_frames(Sample& sample, const at::Tensor& frames);

// The sample's facts with `fps`: what the file's headers say, if its JSON does not and it is no picture. probe:
// stage/video.probe.
json facts_with_rate(const Sample& sample, json facts, const OneStage& probe);

// The tensor `frames` of a sample, uint8 [T, H, W, 3], copied. Throws Error(KINORA_ERROR_INVALID) if it has
// another form.
at::Tensor frames_of_sample(const Sample& sample);

// The sample's fact `damaged`, or "". A stage that decodes sets it to what it met.
std::string damage_in(const Sample& sample);

// Index of the n-th sample when all are drawn repeatedly, shuffled anew in each epoch. A function of its
// arguments only, with the same small cost for any count.
int64_t shuffled(int64_t n, int64_t count, uint64_t seed);

}  // namespace kinora::core

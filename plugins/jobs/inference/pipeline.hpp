// Everything that makes videos (model, tokenizer, encoders), opened and loaded once and used by any number of
// sessions, each of which makes one video.
//
//   Pipeline pipeline(runtime, spec, parallelism);
//   Session session(pipeline, {.seed = 1, .prompt = "a red sea"});
//   while (const auto frames = session.next_chunk()) show(*frames);
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/torch/network/cache_instance.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/inference/given_files.hpp"
#include "plugins/jobs/inference/guidance.hpp"
#include "plugins/jobs/inference/named_loras.hpp"
#include "plugins/jobs/inference/pipeline_spec.hpp"
#include "plugins/jobs/inference/turns.hpp"

namespace kinora::core::inference {

// Constant after its constructor, except for the networks: who calls one holds turns(), for the tokenizer
// coding_turns(), and std::logic_error is thrown otherwise. Other errors are kinora::Error.
class Pipeline {
 public:
  // Opens and loads everything; runtime and parallel must outlive this object. Every rank makes one.
  Pipeline(Runtime& runtime, PipelineSpec spec, Parallelism& parallel);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  const PipelineSpec& spec() const { return spec_; }
  const Parallelism& parallel() const { return parallel_; }
  at::Device device() const { return device_; }
  bool makes_codes() const { return makes_codes_; }  // the model predicts codes
  // A model that denoises chunk after chunk may keep keys and values of finished chunks.
  bool keeps() const { return cache_ != nullptr && !makes_codes_ && spec_.rule.teacher_forcing; }
  // A chunk sees on the cache the first latent frames, and the latest others with its own (0: all). In
  // chunks: all that have such frames.
  int64_t sink_frames() const { return kept_sink_; }
  int64_t sink_chunks() const { return kept_sink_ > 0 ? spec_.rule.chunks().of(kept_sink_ - 1) + 1 : 0; }
  int64_t window_chunks() const;
  bool reads_text() const { return text_ != nullptr; }
  bool reads_pictures() const { return image_ != nullptr; }
  bool takes(const std::string& input) const { return takes_input(model_spec_, input); }
  const ComponentSpec& model_spec() const { return model_spec_; }
  // [C, t, h, w] of the latents; C = 1 for codes.
  const std::vector<int64_t>& shape() const { return shape_; }
  // That of a request's size. Throws Error(KINORA_ERROR_INVALID) for a size that the tokenizer cannot make, or of
  // codes, whose size is the model's.
  std::vector<int64_t> shape_of(const Request& request) const;
  // Frames of a request's video; 0: as many as its latents are.
  int64_t wanted_frames(const Request& request) const;
  const kinora_tokenizer_info& tokenizer_info() const { return info_; }
  int64_t frames() const { return 1 + (shape_[1] - 1) * info_.time; }  // of a video
  // Number of codes in a video; 0 for a model that denoises.
  int64_t tokens() const { return makes_codes() ? shape_[1] * shape_[2] * shape_[3] : 0; }
  const LatentScale& scale() const { return spec_.latents.scale; }
  // Frames per second: the spec's, else that of training, else that of the video it is made from.
  double fps(const Request& request);
  // Bytes of the weights of all networks in this process.
  int64_t weight_bytes() const;

  // [any-thread] Files that a request names.
  GivenFiles& files() { return *files_; }

  // Calls of networks and of the loss take turns: one at a time, each for some video.
  Turns& turns() { return turns_; }
  // The tokenizer's calls take turns of their own, so that it works while a network does. A thread has a turn of one
  // kind at a time.
  Turns& coding_turns() { return coding_turns_; }
  // With a turn, all of the following.
  Model& model() { return with_turn(*model_); }
  TextEncoder& text() { return with_turn(*text_); }               // of reads_text()
  ImageEncoder& image() { return with_turn(*image_); }            // of reads_pictures()
  const LossInstance& loss() const { return with_turn(*loss_); }  // of a model that denoises
  GuidedModel& guided() { return with_turn(*guided_); }           // the same
  CacheInstance& cache() { return with_turn(*cache_); }           // of makes_codes() or keeps()
  uint64_t next_number() { return ++with_turn(number_); }         // of a session in the cache
  // With a coding turn, these.
  Tokenizer& tokenizer() {
    coding_turns_.require_mine();
    return *tokenizer_;
  }
  at::Tensor decode_next(Tokenizer::Stream& stream, const at::Tensor& latent, const kinora_run& run) {
    coding_turns_.require_mine();
    return core::decode_next(stream, latent, device_, &run);
  }

  // With a turn: the LoRA of the calls of the model from now on, one of the spec's.
  void use_lora(const LoraUse& lora);

  // The sampler keeps a video's state, so each session has its own, with the request's steps.
  std::unique_ptr<SamplerInstance> open_sampler(const Request& request = {}) const;

  // A session of a model that several ranks share is alone: the ranks meet in every call, and nothing would
  // make them take turns in the same order. Throws Error(KINORA_ERROR_UNSUPPORTED).
  void enter();
  void leave() noexcept { --sessions_; }
  // The ranks that make every call of a session together.
  const kinora_group& together() const { return together_; }

 private:
  Component open(const std::string& slot) const;
  ChainOptions chain_options() const;
  void open_cache();
  // expert: the one of an adapter's file.
  std::unique_ptr<Model> open_model(std::vector<const kinora_link*> links, AdapterOf expert);
  void open_experts();
  void open_denoising();
  void load_model();
  void open_encoders();
  std::vector<int64_t> latent_shape();
  std::vector<int64_t> shape_of_size(RequestedSize size) const;
  void warn_of_rate() const;
  double known_rate() const { return spec_.fps > 0 ? spec_.fps : spec_.encoded_fps; }
  template <class T>
  T& with_turn(T& network) const {
    turns_.require_mine();
    return network;
  }
  bool speaks() const { return parallel_.rank() == 0; }

  Runtime& runtime_;
  PipelineSpec spec_;
  Parallelism& parallel_;
  const kinora_group& together_;
  const ComponentSpec& model_spec_;
  const bool makes_codes_;
  at::Device device_;  // codes are drawn on the CPU
  std::unique_ptr<Tokenizer> tokenizer_;
  kinora_tokenizer_info info_{};
  std::vector<int64_t> shape_;
  std::unique_ptr<GivenFiles> files_;
  std::unique_ptr<CacheInstance> cache_;
  int64_t kept_sink_ = 0, kept_window_ = 0;         // latent frames
  uint64_t number_ = 0;                             // of the last session in the cache
  std::vector<std::unique_ptr<NamedLoras>> loras_;  // of each network; none without adapters
  std::unique_ptr<Model> model_, low_;              // low_: the second of two experts that are both in memory
  std::unique_ptr<Experts> experts_;
  std::unique_ptr<LossInstance> loss_;
  std::unique_ptr<GuidedModel> guided_;
  std::unique_ptr<TextEncoder> text_;
  std::unique_ptr<ImageEncoder> image_;
  Turns turns_, coding_turns_;
  std::atomic<int64_t> sessions_{0};
};

}  // namespace kinora::core::inference

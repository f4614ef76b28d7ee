// kind = "embed-text": one vector per caption, for `kinora search`. Reads all clips of a curate job, or those
// that a dedup or select job has kept.
#include <optional>

#include "core/base/cancel.hpp"
#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/service.hpp"
#include "core/run/job_check.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/npy.hpp"
#include "plugins/jobs/curation/clip_files.hpp"
#include "plugins/jobs/curation/clip_source.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/edits.hpp"
#include "plugins/jobs/curation/search/caption_encoder.hpp"
#include "plugins/jobs/embed-text/text_vectors.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/paths_option.hpp"
#include "plugins/jobs/inference/tensor_job.hpp"

namespace kinora::core {

// Writes text.npy [clips, D], rows of length 1, and text.json: {"clips": folder of the curate job's data,
// relative to this folder; "keys": one per row; "texts": the SHA-256 of each row's text; "rows_sha256": of
// text.npy; "encoder": the encoder that kinora search uses for queries}. A text that was embedded before
// keeps its vector.
struct EmbedTextOptions {
  int64_t max_tokens = 256, threads = 0;
  std::string device = "auto";
  WeightsPaths text_weights{"asset:minilm/model.safetensors"};
  static void describe(Describe<EmbedTextOptions>& d) {
    d.name("embed-text")
        .help("Embeds the captions of a curate job as one vector per clip, for kinora search");
    d.option("text_weights", &EmbedTextOptions::text_weights).help("safetensors of the text encoder");
    d.option("max_tokens", &EmbedTextOptions::max_tokens)
        .range(2, 4096)
        .help("longest caption in tokens; longer ones are cut");
    d.option("device", &EmbedTextOptions::device)
        .how_only()
        .help("device for tensor operations: auto (the first GPU, else the CPU), cpu, cuda, cuda:1");
    d.option("threads", &EmbedTextOptions::threads)
        .how_only()
        .range(0, 4096)
        .help("number of threads for tensor operations; 0: one per core");
  }
};

namespace {

namespace fs = std::filesystem;

// The encoder of a job in the form that text.json stores.
json encoder_of(const JobSpec& job) {
  const auto &words = *job.component("words"), &text = *job.component("text");
  return {{"words", words.id},
          {"words_options", words.options.values()},
          {"text", text.id},
          {"text_options", text.options.values()},
          {"weights", job.options.at("text_weights")},
          {"max_tokens", job.options.at("max_tokens")},
          {"device", job.options.at("device")}};
}

// Vectors of texts, each computed once; the encoder is opened for the first text that was not embedded
// before.
class Embedder {
 public:
  Embedder(JobContext& context, json encoder)
      : runtime_(context.runtime()), how_(std::move(encoder)), known_(context.folder(), how_) {}

  const std::vector<float>& operator()(const std::string& text) {
    if (const auto* vector = known_.find(text)) return *vector;
    if (!encoder_) encoder_.emplace(runtime_, read_caption_encoder(runtime_.registry(), how_));
    ++computed_;
    return known_.add(text, (*encoder_)(text));
  }
  const json& how() const { return how_; }
  int64_t computed() const { return computed_; }

 private:
  Runtime& runtime_;
  const json how_;
  KnownTexts known_;
  std::optional<CaptionVectors> encoder_;
  int64_t computed_ = 0;
};

// The caption with people's edits; nothing if the clip has none.
std::optional<std::string> caption_of(Io& io, const EditHistory& edits, const std::string& key,
                                      const ClipFields& fields) {
  if (auto edited = edits.now(key).caption) return edited;
  const auto own = fields.find("txt");
  if (own == fields.end()) return std::nullopt;
  return or_throw(io.read_all(own->second.string(), 1 << 20));
}

}  // namespace

class EmbedText final : public TensorJob {
 public:
  using Options = EmbedTextOptions;
  static JobParts parts();
  bool keeps_work() const override { return true; }
  std::string edits_identity(const RunFile& run, const JobSpec& job) const override {
    return core::edits_identity(
        run, job, [](const Edited& edit) { return edit.caption ? json(*edit.caption) : json(); });
  }

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override {
    check_text(check), check_device(check), check_clip_source(check);
  }
};

JobParts EmbedText::parts() {
  return {.slots = {kTextSlot, kWordsSlot},
          .reads = {"curate", "dedup", "select", "folder"},
          .tensors = true,
          .draws = false};
}

void EmbedText::work(JobContext& context) const {
  const auto options = context.options<EmbedTextOptions>();
  use_threads(options.threads);
  const auto [curated, decisions] = clip_source(context.run(), context.spec());
  const fs::path data = curated / "data";
  auto clips = clips_in(data);
  const EditHistory edits = read_edits(curated / kEditsFile, kept_in(curated));
  if (!decisions.empty()) {
    const auto drops = drops_in(decisions);
    std::erase_if(clips, [&](const auto& clip) { return drops.contains(clip.first); });
  }
  Embedder embed(context, encoder_of(context.spec()));
  std::vector<float> all;
  json keys = json::array(), texts = json::array();
  int64_t width = 0;
  Progress progress(context.spec().name, static_cast<int64_t>(clips.size()), "clips");
  for (const auto& [key, fields] : clips) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    if (const auto caption = caption_of(context.runtime().io(), edits, key, fields)) {
      const auto& vector = embed(*caption);
      width = static_cast<int64_t>(vector.size());
      all.insert(all.end(), vector.begin(), vector.end());
      keys.push_back(key);
      texts.push_back(sha256(*caption));
    }
    progress.update(static_cast<int64_t>(keys.size()), "");
  }
  const auto count = static_cast<int64_t>(keys.size());
  const std::string rows = to_npy(all, {count, width});
  const json about{{"clips", fs::relative(data, context.folder()).string()},
                   {"keys", keys},
                   {"texts", texts},
                   {"rows_sha256", sha256(rows)},
                   {"encoder", embed.how()}};
  or_throw(write_file_atomically(context.folder() / "text.npy", rows));
  or_throw(write_file_atomically(context.folder() / "text.json",
                                 about.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"));
  context.summary.update(
      {{"clips", clips.size()}, {"captions", count}, {"embedded", embed.computed()}, {"size", width}});
  if (count == 0)
    log_warn("{}: {}", context.spec().name,
             clips.empty() ? "no clip was kept, so there is nothing to search"
                           : "no clip has a caption; put a stage caption.* into the curate job");
}

class CaptionTexts final : public TextVectors {
 public:
  using Interface = TextVectors;
  static constexpr const char* kHelp = "Embeds texts with the encoder of an embed-text job";
  std::vector<std::vector<float>> embed(Runtime& runtime, const json& encoder,
                                        const std::vector<std::string>& texts) const override {
    return with_plain_errors([&] {
      const CaptionEncoder named = read_caption_encoder(runtime.registry(), encoder);
      require_safe(runtime.registry(), named);
      CaptionVectors vector_of(runtime, named);
      std::vector<std::vector<float>> out;
      for (const auto& text : texts) out.push_back(vector_of(text));
      return out;
    });
  }
};

}  // namespace kinora::core

using kinora::core::EmbedText;
KINORA_JOB(EmbedText)
KINORA_SERVICE(CaptionTexts)
KINORA_PLUGIN(EmbedText, CaptionTexts)

// kind = "embed-text", and the encoding of a question that kinora search asks of what it left.
#include "core/jobs/embed_text.hpp"

#include <ATen/ATen.h>

#include "core/curate/edit_history.hpp"
#include "core/io/atomic_file.hpp"
#include "core/jobs/clip_files.hpp"
#include "core/log.hpp"
#include "core/run/cancel.hpp"
#include "core/torch/generating/text_encoder.hpp"
#include "core/torch/jobs/checks.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/tensors/device.hpp"
#include "kinora/npy.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// The encoder of a job, as text.json keeps it.
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

TextEncoder opened(Runtime& runtime, const json& encoder) {
  const auto options = [&](const std::string& id, const char* name) {
    return or_throw(Options::make(*or_throw(runtime.registry().find(id)), encoder.at(name)));
  };
  TextEncoder::Parts parts;
  parts.words = encoder.at("words");
  parts.text = encoder.at("text");
  parts.words_options = options(parts.words, "words_options");
  parts.text_options = options(parts.text, "text_options");
  for (const auto& path : encoder.at("weights")) parts.weights.emplace_back(path.get<std::string>());
  parts.max_tokens = encoder.at("max_tokens");
  return TextEncoder(runtime, parts, device_of(encoder.at("device")));
}

// Mean of the tokens' embeddings [L, D], of length 1: what sentence-transformers does for MiniLM.
std::vector<float> vector_of(TextEncoder& encoder, const std::string& text) {
  const at::Tensor mean = encoder(text).mean(0), unit = (mean / mean.norm().clamp_min(1e-12)).contiguous();
  const auto* from = unit.const_data_ptr<float>();
  return {from, from + unit.numel()};
}

}  // namespace

void check_embed_text(JobCheck& check) {
  check_text(check);
  check_device(check);
}

void run_embed_text(JobContext& context) {
  require(context, check_embed_text);
  const auto options = context.options<EmbedTextOptions>();
  use_threads(options.threads);
  const fs::path curated = context.folder_of(context.need_upstream("curate")), data = curated / "data";
  const auto clips = clips_in(data);
  const EditHistory edits = read_edits(curated / kEditsFile, kept_in(curated));
  const json how = encoder_of(context.spec());
  TextEncoder encoder = opened(context.runtime(), how);
  std::vector<float> all;
  json keys = json::array();
  int64_t width = 0;
  Progress progress(context.spec().name, static_cast<int64_t>(clips.size()), "clips");
  for (const auto& [key, fields] : clips) {
    if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
    auto caption = edits.now(key).caption;
    if (const auto own = fields.find("txt"); !caption && own != fields.end())
      caption = or_throw(context.runtime().io().read_all(own->second.string(), 1 << 20));
    if (caption) {
      const auto vector = vector_of(encoder, *caption);
      width = static_cast<int64_t>(vector.size());
      all.insert(all.end(), vector.begin(), vector.end());
      keys.push_back(key);
    }
    progress.update(static_cast<int64_t>(keys.size()), "");
  }
  const auto count = static_cast<int64_t>(keys.size());
  const json about{
      {"clips", fs::relative(data, context.folder()).string()}, {"keys", keys}, {"encoder", how}};
  or_throw(write_file_atomically(context.folder() / "text.npy", to_npy(all, {count, width})));
  or_throw(write_file_atomically(context.folder() / "text.json",
                                 about.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"));
  context.summary.update({{"clips", clips.size()}, {"captions", count}, {"size", width}});
  if (count == 0)
    log_warn("{}: no clip has a caption; put a stage caption.* into the curate job", context.spec().name);
}

json embed_texts(Runtime& runtime, const json& request) {
  TextEncoder encoder = opened(runtime, request);
  json out = json::array();
  for (const auto& text : request.at("texts")) out.push_back(vector_of(encoder, text.get<std::string>()));
  return {{"embeddings", out}};
}

}  // namespace kinora::core

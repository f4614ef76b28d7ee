// kind = "encode"
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/torch/media/signals.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "plugins/jobs/encode/check_encode.hpp"
#include "plugins/jobs/encode/latent_parts.hpp"
#include "plugins/jobs/encode/live_encode.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/inference/tensor_job.hpp"
#include "plugins/jobs/latents/latent_cache.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/windows/encode_options.hpp"
#include "plugins/jobs/windows/no_text.hpp"
#include "plugins/jobs/windows/window_encoder.hpp"

namespace kinora::core {
namespace {

// The most that stage/video.read decodes at once by itself.
constexpr int64_t kDecodedWhole = int64_t{1} << 30;

// Ranks along dp encode different clips, ranks along cp different stretches of time of each window.
class Encoding {
 public:
  Encoding(JobContext& context, const EncodeOptions& o)
      : context_(context),
        options_(o),
        device_(device_of(o.device)),
        parallel_(context),
        group_(parallel_.of_sample()),
        clips_(context, shards_of(context),
               {{"height", o.height},
                {"width", o.width},
                {"stride", o.every},
                {"memory", group_.size > 1 ? o.memory : std::max(o.memory, kDecodedWhole)}},
               o.memory),
        encoder_(context, o, device_, &group_),
        parts_(context.folder(), clips_.size()) {
    if (writes()) text_.emplace(context, context.spec(), device_);
  }

  void run() {
    const auto missing = missing_parts();
    try {
      encode_mine(missing);
    } catch (const std::exception& e) {
      if (parallel_.rank() > 0 && !cancelled())
        parts_.leave_failure(fmt::format("rank {}: {}", parallel_.rank(), e.what()));
      throw;
    }
    if (parallel_.rank() > 0) return;
    parts_.wait_for(missing, context_.spec().name);
    if (options_.encode_empty) write_no_text(context_, (*text_)(""));
    context_.summary.update(merge_latents(context_.folder(), context_.spec().name, parts_, clips_, options_));
  }

 private:
  bool writes() const { return group_.rank == 0; }

  // The missing parts as found by the first rank, on every rank.
  std::vector<int64_t> missing_parts() const {
    at::Tensor there = at::zeros({parts_.size()}, at::kDouble);
    if (parallel_.rank() == 0) {
      const auto found = parts_.begin();
      for (size_t i = 0; i < found.size(); ++i) there[static_cast<int64_t>(i)] = found[i] ? 1 : 0;
    }
    there = Group<at::Tensor>(&parallel_.group("world")).broadcast(there, 0);
    std::vector<int64_t> out;
    for (int64_t part = 0; part < parts_.size(); ++part)
      if (there[part].item<double>() == 0) out.push_back(part);
    if (static_cast<int64_t>(out.size()) < parts_.size())
      log_info("{}: {} of {} parts were already encoded", context_.spec().name,
               parts_.size() - static_cast<int64_t>(out.size()), parts_.size());
    return out;
  }

  void encode_mine(const std::vector<int64_t>& missing) {
    std::vector<int64_t> mine;
    int64_t clips = 0, done = 0;
    for (auto i = static_cast<size_t>(parallel_.data_rank()); i < missing.size();
         i += static_cast<size_t>(parallel_.data_size())) {
      mine.push_back(missing[i]);
      clips += parts_.last_clip(missing[i]) - parts_.first_clip(missing[i]);
    }
    Progress progress(context_.spec().name, clips, "clips");
    for (const int64_t part : mine) {
      std::optional<LatentCacheWriter> cache;
      json outcomes = json::array();
      for (int64_t i = parts_.first_clip(part); i < parts_.last_clip(part); ++i) {
        outcomes.push_back(outcome_of(i, parts_.cache(part), cache));
        progress.update(++done, std::to_string(windows_) + " windows");
      }
      if (!writes()) continue;
      if (cache) cache->commit();
      parts_.finish(part, outcomes);
    }
  }

  // Writes every window of a clip to the cache; returns the outcome with the reason if there is none.
  json outcome_of(int64_t i, const std::filesystem::path& file, std::optional<LatentCacheWriter>& cache) {
    json out = json::object();
    if (!options_.signals.empty()) {
      out["facts"] = named_facts(i);
      std::string why;  // logged once all clips are finished
      if (!Signals(options_.signals, options_.every).of(out["facts"], why)) {
        out["outcome"] = "without_signal";
        return out;
      }
    }
    const auto length = same_length(clips_.try_length(i));
    std::vector<int64_t> windows;
    const int64_t stride = options_.stride > 0 ? options_.stride : options_.frames;
    at::Tensor text;
    const auto caption = clips_.try_caption(i);
    bool whole = length.has_value() && caption.has_value(), is_finite = true;
    for (int64_t first = 0; whole && first + options_.frames <= *length; first += stride) {
      auto tensors = window(i, first);
      whole = tensors.has_value();
      if (!whole || !writes()) continue;
      if (is_finite = is_finite && core::is_finite(*tensors); !is_finite) continue;
      if (!text.defined()) text = (*text_)(*caption, "the caption of " + clips_.key(i));
      (*tensors)["text"] = text;
      if (!cache) cache.emplace(file, "{}");
      cache->add(clips_.key(i) + "@" + std::to_string(first), *tensors);
      windows.push_back(first);
      ++windows_;
    }
    if (!is_finite) {  // every rank has encoded the clip to its end
      whole = false;
      log_warn("{}: clip {} is left out: its latent has values that are not finite; check tokenizer_weights",
               context_.spec().name, clips_.key(i));
    }
    out["outcome"] = !whole ? "failed" : *length < options_.frames ? "too_short" : "encoded";
    if (whole) out["windows"] = windows;
    if (!windows.empty()) out["fps"] = number_in(clips_.facts(i), "fps");
    return out;
  }

  // The members of the clip's JSON that `signals` names.
  json named_facts(int64_t i) {
    const json all = clips_.facts(i);
    json out = json::object();
    for (const auto& name : options_.signals)
      if (all.is_object() && all.contains(name)) out[name] = all[name];
    return out;
  }

  // Nothing on every rank of the group if one of them has nothing.
  std::optional<int64_t> same_length(std::optional<int64_t> own) const {
    if (group_.size == 1) return own;
    const double least = gather_rows(group_, {static_cast<double>(own.value_or(-1))}).min().item<double>();
    return least < 0 ? std::nullopt : std::optional(static_cast<int64_t>(least));
  }

  // The window's tensors, on the rank that writes; nothing on every rank of the group if one of them cannot
  // read its stretch.
  std::optional<NamedTensors> window(int64_t i, int64_t first) {
    const Stretch own = encoder_.own_frames();
    const at::Tensor frames = read(i, first + own.first, own.count);
    if (!frames.defined()) return std::nullopt;
    return encoder_(frames, group_.size == 1 ? &run_ : nullptr);  // ranks stop together, between windows
  }

  // Undefined on every rank of the group if one of them cannot read.
  at::Tensor read(int64_t i, int64_t first, int64_t count) {
    const bool stop = group_.size == 1
                          ? cancelled()
                          : gather_rows(group_, {cancelled() ? 1.0 : 0.0}).max().item<double>() > 0;
    if (stop) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    std::string why;
    at::Tensor out;
    try {
      // A rank without a stretch still needs a frame of the same size.
      out = clips_.frames(i, first, std::max<int64_t>(count, 1));
    } catch (const Error& e) {
      why = e.what();
    }
    const auto all = Exchange(group_).gather(why);
    for (const auto& of_rank : all) {
      if (of_rank.empty()) continue;
      log_warn("{}: clip {} is left out: {}", context_.spec().name, clips_.key(i), of_rank);
      return {};
    }
    return out;
  }

  JobContext& context_;
  EncodeOptions options_;
  at::Device device_;
  Parallelism parallel_;
  const kinora_group& group_;  // of the ranks that encode a window together
  Clips clips_;
  WindowEncoder encoder_;
  const kinora_run run_ = context_.call();
  LatentParts parts_;
  std::optional<TextEncoder> text_;
  int64_t windows_ = 0;
};

}  // namespace

class Encode final : public TensorJob {
 public:
  using Options = EncodeOptions;
  static JobParts parts();
  std::string data_digest(const std::filesystem::path& folder) const override {
    return latents_digest(folder);
  }

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override { check_encode(check); }
};

JobParts Encode::parts() {
  return {
      .slots =
          {{.name = "read", .kind = "stage", .use = "video.read", .required = true, .help = "decodes clips"},
           kTransformsSlot,
           kPublishedTokenizerSlot,
           kTextSlot,
           kWordsSlot,
           {.name = "image_encoder",
            .kind = "model",
            .help = "encoder that embeds each window's first frame, cached as `image`: clip-vision",
            .weights = "image_encoder_weights"},
           {.name = "parallel",
            .kind = "parallel",
            .use = "ddp",
            .required = true,
            .list = true,
            .help = "parallel strategies, composed; ddp divides the clips, strategies along cp divide the "
                    "time of each clip",
            .how_only = true},
           kCollectiveSlot},
      .reads = {"shard", "path", "data", "train-tokenizer"},
      .tensors = true};
}

void Encode::work(JobContext& context) const {
  const auto options = context.options<EncodeOptions>();
  use_threads(options.threads);
  const at::NoGradGuard off;
  if (context.spec().data) return encode_live(context, options);
  Encoding(context, options).run();
}

}  // namespace kinora::core

using kinora::core::Encode;
KINORA_JOB(Encode)
KINORA_PLUGIN(Encode)

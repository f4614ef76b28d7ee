// kind = "generate"
#include <chrono>
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "core/run/one_stage.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "plugins/jobs/training/checks.hpp"
#include "plugins/jobs/training/generating/generator.hpp"
#include "plugins/jobs/training/generating/parts.hpp"
#include "plugins/jobs/training/generating/wishes.hpp"
#include "plugins/jobs/training/media/clips.hpp"
#include "plugins/jobs/training/strip.hpp"
#include "plugins/jobs/training/tensor_job.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Warns of inputs that are given and not read, each in one line.
void note_unread(const JobContext& context, const GenerateOptions& o, const std::vector<Wish>& all,
                 bool reads_text) {
  const auto of = [&](auto wish) { return std::any_of(all.begin(), all.end(), wish); };
  const std::string& name = context.spec().name;
  const double none = o.guidance_convention == "nemo" ? 0 : 1;
  const bool is_guided = o.guidance != none || (o.guidance_2 >= 0 && o.guidance_2 != none);
  if (!reads_text && of([](const Wish& w) { return !w.prompt.empty(); }))
    log_warn(
        "{}: the prompts are not read: the model takes no text, or neither this job nor an encode job has a "
        "text encoder (text)",
        name);
  else if (!is_guided && of([&](const Wish& w) {
             const bool is_own = w.negative != o.negative || context.spec().places.contains("negative");
             return is_own && !w.negative.empty();
           }))
    log_warn("{}: negative is not read, because guidance = {} is none; raise guidance, or leave negative out",
             name, o.guidance);
  if (o.strength == 1 && of([](const Wish& w) { return !w.image.empty() && !w.video.empty(); }))
    log_warn("{}: video is not read, because image is the first frame; leave one of them out", name);
}

class GenerateJob {
 public:
  GenerateJob(JobContext& context, const GenerateOptions& o)
      : context_(context),
        options_(o),
        generator_(context, o),
        made_with_(core::made_with(context, generator_.parts(), context.run().out / ".weights.json")) {
    warn_of_untrained_condition();
    const auto differs = differences(context.spec().made_with, made_with_);
    if (!differs.empty())
      log_warn("{}: the repeated video may differ, since the original was made with other versions: {}",
               context.spec().name, differs);
    fs::create_directories(context.folder() / "videos");
  }

  // The videos that an earlier, interrupted run left incomplete, as found by the first rank, on every rank.
  std::vector<Wish> missing(const std::vector<Wish>& all) const {
    at::Tensor complete = at::zeros({static_cast<int64_t>(all.size())}, at::kDouble);
    if (parallel().rank() == 0)
      for (size_t i = 0; i < all.size(); ++i) complete[static_cast<int64_t>(i)] = !about(all[i]).empty();
    complete = Group<at::Tensor>(&parallel().group("world")).broadcast(complete, 0);
    std::vector<Wish> out;
    for (size_t i = 0; i < all.size(); ++i)
      if (complete[static_cast<int64_t>(i)].item<double>() == 0) out.push_back(all[i]);
    return out;
  }

  // Each video is made by the ranks of one sample; as many are made at a time as there are such groups of
  // ranks.
  void make(const std::vector<Wish>& all) {
    if (parallel().group("fsdp").size > 1)
      for (const auto& alike : of_equal_calls(all)) make_in_turns(alike, true);
    else
      make_in_turns(all, false);
    parallel().any(false);  // no rank leaves before the last video is written
  }

  bool reads_text() const { return generator_.reads_text(); }
  bool is_first_rank() const { return parallel().rank() == 0; }
  // Whether other ranks make videos too, whose progress this rank does not see.
  bool spread() const { return parallel().data_size() > 1; }

  // Writes the lines of the metrics, in order.
  void tell(const std::vector<Wish>& all) {
    if (parallel().rank() != 0) return;
    context_.metrics().clear();
    for (const auto& wish : all)
      if (const json line = about(wish); !line.empty()) context_.metrics().line(line);
  }

 private:
  const Parallelism& parallel() const { return generator_.parallel(); }
  bool writes() const { return !echo_ && parallel().of_sample().rank == 0; }

  // in_step: ranks meet in every call of a model, so a rank without a video makes the last one again and
  // discards it.
  void make_in_turns(const std::vector<Wish>& all, bool in_step) {
    const auto at_once = static_cast<size_t>(parallel().data_size());
    for (size_t first = 0; first < all.size(); first += at_once) {
      if (parallel().any(cancelled())) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
      const size_t mine = first + static_cast<size_t>(parallel().data_rank());
      echo_ = mine >= all.size();
      if (!echo_ || in_step) make(all[std::min(mine, all.size() - 1)]);
    }
    echo_ = false;
  }

  // Groups wishes whose videos need the same calls of all networks, which their given frames decide.
  static std::vector<std::vector<Wish>> of_equal_calls(const std::vector<Wish>& all) {
    std::map<std::array<bool, 3>, std::vector<Wish>> out;
    for (const auto& wish : all)
      out[{wish.image.empty(), wish.video.empty(), wish.negative.empty()}].push_back(wish);
    std::vector<std::vector<Wish>> groups;
    for (auto& [_, alike] : out) groups.push_back(std::move(alike));
    return groups;
  }

  // The file written last for a complete video; null if it is not complete.
  json about(const Wish& wish) const {
    std::ifstream in(base_of(wish).string() + ".json");
    const auto about = json::parse(in, nullptr, false);
    if (!about.is_object()) return {};
    for (const auto& file : about.value("files", json()))
      if (!file.is_string() || !fs::exists(context_.folder() / "videos" / file.get<std::string>())) return {};
    return about;
  }

  // A video that fails leaves no files.
  void make(const Wish& wish) {
    try {
      make_whole(wish);
    } catch (...) {
      if (writes()) drop(wish);
      throw;
    }
  }

  void make_whole(const Wish& wish) {
    const auto start = std::chrono::steady_clock::now();
    Progress progress(context_.spec().name, generator_.tokens(), generator_.of_codes() ? "tokens" : "steps");
    const auto made = generator_.make(wish, progress, [&](int64_t step, const at::Tensor& frame) {
      if (!writes()) return;
      const auto folder = context_.folder() / "previews" / base_of(wish).filename();
      fs::create_directories(folder);
      write_strip(context_, frame, 1, folder / fmt::format("step_{:04}.png", step));
    });
    progress.finish();
    if (!writes()) return;
    json about = describe(wish, made);
    store(wish, made, about);
    add_memory(about, generator_.device());
    about["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    or_throw(write_file_atomically(base_of(wish).string() + ".json", about.dump(2) + "\n"));
    context_.metrics().line(about);
  }

  void drop(const Wish& wish) const {
    const std::string name = base_of(wish).filename().string();
    std::error_code ignored;
    std::vector<fs::path> parts{context_.folder() / "previews" / name};
    for (const auto& entry : fs::directory_iterator(context_.folder() / "videos", ignored))
      if (const auto file = entry.path().filename().string(); file == name || file.starts_with(name + "."))
        parts.push_back(entry.path());
    for (const auto& part : parts) fs::remove_all(part, ignored);
  }

  fs::path base_of(const Wish& wish) const {
    return context_.folder() / "videos" / fmt::format("{:03}", wish.number - options_.first);
  }

  // Everything needed to make this video again: `kinora generate --from` reads it.
  json describe(const Wish& wish, const Generator::Made& made) {
    json options = context_.spec().options;
    options["prompts"] = {wish.prompt};
    options.update({{"prompts_file", ""},
                    {"negative", wish.negative},
                    {"seed", wish.seed},
                    {"first", wish.number},
                    {"count", 1},
                    {"image", wish.image.string()},
                    {"video", wish.video.string()},
                    {"signals", texts_of(wish.signals)}});
    json about = {{"prompt", wish.prompt},
                  {"negative", wish.negative},
                  {"seed", wish.seed},
                  {"number", wish.number},
                  {"guidance", options_.guidance},
                  {"precision", context_.spec().component("precision")->id},
                  {"steps", made.steps},
                  {"nfe", made.nfe},
                  {"model_calls", made.model_calls},
                  {"fps", generator_.fps(wish)},
                  {"frames", made.frames.size(0)},
                  {"height", made.frames.size(1)},
                  {"width", made.frames.size(2)},
                  {"job", context_.spec().name},
                  {"options", options}};
    about.update(made_with_);
    about.update(way(made));
    return about;
  }

  // A denoiser that never saw given frames still makes something of them, but not much.
  void warn_of_untrained_condition() const {
    const JobSpec* train = context_.spec().component("model") ? nullptr : context_.upstream("train");
    if (!train || train->options.at("pipeline") != "" || generator_.of_codes() ||
        (options_.image.empty() && options_.video.empty()))
      return;
    const auto given = train->options.at("condition_frames").get<std::vector<int64_t>>();
    const bool forced = train->options.at("teacher_forcing");  // every chunk but the first saw clean ones
    if (options_.strength == 1 && !forced &&
        std::none_of(given.begin(), given.end(), [](int64_t n) { return n > 0; }))
      log_warn(
          "{}: job '{}' never trained with given frames, so what follows the first may have little to do "
          "with it; train with condition_frames = [0, 1]",
          context_.spec().name, train->name);
  }

  // How the latents were made.
  json way(const Generator::Made& made) const {
    if (generator_.of_codes())
      return {{"temperature", options_.temperature},
              {"top_k", options_.top_k},
              {"top_p", options_.top_p},
              {"cache", context_.spec().component("cache")->id},
              {"cache_options", context_.spec().component("cache")->options.values()},
              {"cache_tokens", made.cache_tokens},
              {"cache_bytes", made.cache_bytes}};
    const auto& sampler = *context_.spec().component("sampler");
    return {{"sampler", sampler.id}, {"sampler_options", sampler.options.values()}};
  }

  void store(const Wish& wish, const Generator::Made& made, json& about) {
    const fs::path base = base_of(wish);
    const std::string comment = about.dump();
    json files = json::array();
    const auto name = [&](const std::string& tail) {
      files.push_back(base.filename().string() + tail);
      return base.string() + tail;
    };
    for (const auto& format : options_.format) {
      if (format == "latents") {
        write_tensors(name(".latents.safetensors"),
                      {{generator_.of_codes() ? "codes" : "latent", made.latent}}, {{"comment", comment}});
      } else if (format == "png") {
        fs::create_directories(name(""));
        for (int64_t i = 0; i < made.frames.size(0); ++i)
          write_strip(context_, made.frames.narrow(0, i, 1), 1, base / fmt::format("{:05}.png", i), comment);
      } else {
        write_encoded(name("." + format), format, made.frames, generator_.fps(wish), comment);
      }
    }
    write_strip(context_, made.frames, 6, name(".png"), comment);
    about["files"] = files;
  }

  void write_encoded(const fs::path& file, const std::string& format, const at::Tensor& frames, double fps,
                     const std::string& comment) {
    Sample sample("video");
    set_frames(sample, frames);
    sample.set("comment", comment);
    const OneStage write(context_.runtime(), "video.write",
                         json{{"format", format}, {"fps", fps}, {"crf", options_.crf}});
    const Sample made = write(sample);
    const auto bytes = *made.bytes(format.c_str());
    or_throw(write_file_atomically(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }

  JobContext& context_;
  GenerateOptions options_;
  Generator generator_;
  json made_with_;
  bool echo_ = false;  // the result is another rank's video
};

}  // namespace

class Generate final : public TensorJob {
 public:
  using Options = GenerateOptions;
  static JobParts parts();

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override { check_generate(check); }
};

JobParts Generate::parts() {
  return {
      .slots = {{.name = "sampler",
                 .kind = "sampler",
                 .use = "edm-heun",
                 .required = true,
                 .help = "sampler that turns noise into a sample"},
                {.name = "model",
                 .kind = "model",
                 .help = "published model to use instead of a train job's",
                 .weights = "weights"},
                {.name = "loss", .kind = "loss", .help = "loss that the published model was trained on"},
                kPublishedTokenizerSlot,
                {.name = "text",
                 .kind = "model",
                 .help = "text encoder to use instead of the encode job's",
                 .weights = "text_weights"},
                {.name = "words", .kind = "stage", .help = "stage that turns text into tokens for `text`"},
                {.name = "image_encoder",
                 .kind = "model",
                 .help = "encoder of the picture that a video starts with, instead of the encode job's: "
                         "clip-vision",
                 .weights = "image_encoder_weights"},
                {.name = "parallel",
                 .kind = "parallel",
                 .use = "ddp",
                 .required = true,
                 .list = true,
                 .help = "parallel strategies, composed; ddp distributes the videos over the ranks",
                 .how_only = true},
                kPrecisionSlot,
                {.name = "cache",
                 .kind = "cache",
                 .use = "kv",
                 .required = true,
                 .help = "cache of the keys and values of earlier codes, for a model that draws codes one by "
                         "one; the given codes are pinned"},
                kCollectiveSlot},
      .reads = {"train", "train-tokenizer"},
      .needs_input = false,
      .tensors = true};
}

void Generate::work(JobContext& context) const {
  const auto options = context.options<GenerateOptions>();
  const auto all = wishes(context, options);
  use_threads(options.threads);
  const at::NoGradGuard off;
  GenerateJob job(context, options);
  if (job.is_first_rank()) note_unread(context, options, all, job.reads_text());
  const auto missing = job.missing(all);
  job.tell(all);
  if (missing.size() < all.size())
    log_info("{}: {} of {} videos are already complete", context.spec().name, all.size() - missing.size(),
             all.size());
  job.make(missing);
  if (job.spread() || missing.size() < all.size()) job.tell(all);
  context.summary.update({{"videos", all.size()}});
}

}  // namespace kinora::core

using kinora::core::Generate;
KINORA_JOB(Generate)
KINORA_PLUGIN(Generate)

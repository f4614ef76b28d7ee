// kind = "generate"
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/contents.hpp"
#include "core/runtime/place.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "plugins/jobs/generate/about_video.hpp"
#include "plugins/jobs/generate/check_generate.hpp"
#include "plugins/jobs/generate/measured_drift.hpp"
#include "plugins/jobs/generate/serving.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/inference/request_inputs.hpp"
#include "plugins/jobs/inference/requests.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/inference/session.hpp"
#include "plugins/jobs/inference/tensor_job.hpp"
#include "plugins/jobs/media/growing_video.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/media/video_files.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Warns of inputs that are given and not read, each in one line.
void note_unread(const JobContext& context, const GenerateOptions& o, const std::vector<Request>& all,
                 bool reads_text) {
  const auto of = [&](auto has) { return std::any_of(all.begin(), all.end(), has); };
  const std::string& name = context.spec().name;
  const double none = o.guidance_convention == "nemo" ? 0 : 1;
  const bool is_guided = o.guidance != none || (o.guidance_2 >= 0 && o.guidance_2 != none);
  if (!reads_text && of([](const Request& r) { return !r.prompt.empty(); }))
    log_warn(
        "{}: the prompts are not read: the model takes no text, or neither this job nor an encode job has a "
        "text encoder (text)",
        name);
  else if (!is_guided && of([&](const Request& r) {
             const bool is_own = r.negative != o.negative || context.spec().places.contains("negative");
             return is_own && !r.negative.empty();
           }))
    log_warn("{}: negative is not read, because guidance = {} is none; raise guidance, or leave negative out",
             name, o.guidance);
  if (o.strength == 1 && of([](const Request& r) { return !r.image.empty() && !r.video.empty(); }))
    log_warn("{}: video is not read, because image is the first frame; leave one of them out", name);
}

class GenerateJob {
 public:
  GenerateJob(JobContext& context, const GenerateOptions& o)
      : context_(context),
        options_(o),
        parallel_(context),
        pipeline_(context.runtime(), inference::pipeline_spec(context, o), parallel_),
        made_with_(
            inference::with_lora(core::made_with(context, pipeline_.spec().parts, pipeline_.spec().kept),
                                 pipeline_.spec(), lora_use(o.lora, pipeline_.spec().loras).name)),
        about_(context, options_, pipeline_, made_with_) {
    warn_of_untrained_condition();
    const auto differs = differences(context.spec().made_with, made_with_);
    if (!differs.empty())
      log_warn("{}: the repeated video may differ, since the original was made with other versions: {}",
               context.spec().name, differs);
    fs::create_directories(context.folder() / "videos");
  }

  // The videos that an earlier, interrupted run left incomplete, as found by the first rank, on every rank.
  std::vector<Request> missing(const std::vector<Request>& all) const {
    at::Tensor complete = at::zeros({static_cast<int64_t>(all.size())}, at::kDouble);
    if (parallel_.rank() == 0)
      for (size_t i = 0; i < all.size(); ++i) complete[static_cast<int64_t>(i)] = !about(all[i]).empty();
    complete = Group<at::Tensor>(&parallel_.group("world")).broadcast(complete, 0);
    std::vector<Request> out;
    for (size_t i = 0; i < all.size(); ++i)
      if (complete[static_cast<int64_t>(i)].item<double>() == 0) out.push_back(all[i]);
    return out;
  }

  // Each video is made by the ranks of one sample; as many are made at a time as there are such groups of
  // ranks.
  void make(const std::vector<Request>& all) {
    if (parallel_.group("fsdp").size > 1)
      for (const auto& alike : of_equal_calls(all)) make_in_turns(alike, true);
    else
      make_in_turns(all, false);
    parallel_.any(false);  // no rank leaves before the last video is written
  }

  bool reads_text() const { return pipeline_.reads_text(); }
  bool is_first_rank() const { return parallel_.rank() == 0; }
  // Whether other ranks make videos too, whose progress this rank does not see.
  bool spread() const { return parallel_.data_size() > 1; }

  // Writes the lines of the metrics, in order.
  void tell(const std::vector<Request>& all) {
    if (parallel_.rank() != 0) return;
    context_.metrics().clear();
    for (const auto& request : all)
      if (const json line = about(request); !line.empty()) context_.metrics().line(line);
  }

 private:
  bool writes() const { return !echo_ && parallel_.of_sample().rank == 0; }

  // in_step: ranks meet in every call of a model, so a rank without a video makes the last one again and
  // discards it.
  void make_in_turns(const std::vector<Request>& all, bool in_step) {
    const auto at_once = static_cast<size_t>(parallel_.data_size());
    for (size_t first = 0; first < all.size(); first += at_once) {
      if (parallel_.any(cancelled())) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
      const size_t mine = first + static_cast<size_t>(parallel_.data_rank());
      echo_ = mine >= all.size();
      if (!echo_ || in_step) make(all[std::min(mine, all.size() - 1)]);
    }
    echo_ = false;
  }

  // Groups requests whose videos need the same calls of all networks, which their given frames decide.
  static std::vector<std::vector<Request>> of_equal_calls(const std::vector<Request>& all) {
    std::map<json, std::vector<Request>> out;
    for (const auto& r : all)
      out[{r.image.empty(), r.video.empty() ? "" : r.video.string(), r.negative.empty(), r.shots}].push_back(
          r);
    std::vector<std::vector<Request>> groups;
    for (auto& [_, alike] : out) groups.push_back(std::move(alike));
    return groups;
  }

  // The file written last for a complete video; null if it is not complete.
  json about(const Request& request) const {
    const auto about = object_in_file(base_of(request).string() + ".json");
    if (about.empty()) return {};
    for (const auto& file : about.value("files", json()))
      if (!file.is_string() || !fs::exists(context_.folder() / "videos" / file.get<std::string>())) return {};
    return about;
  }

  // A video that fails leaves no files.
  void make(const Request& request) {
    try {
      make_whole(request);
    } catch (...) {
      if (writes()) drop(request);
      throw;
    }
  }

  void make_whole(const Request& request) {
    const auto start = std::chrono::steady_clock::now();
    Progress progress(context_.spec().name, pipeline_.tokens(), pipeline_.makes_codes() ? "tokens" : "steps");
    inference::Session session(
        pipeline_, request,
        {.step = [&](int64_t done) { progress.update(done); },
         .preview = [&](int64_t step,
                        const at::Tensor& frame) { preview(request, session.state().chunk, step, frame); },
         .preview_every = options_.preview_every});
    std::unique_ptr<GrowingVideo> growing;
    // Other ranks do not wait longer for a rank whose viewer has stalled.
    const std::chrono::milliseconds patience(parallel_.world() > 1 ? here().timeout_ms / 2 : 0);
    if (writes() && !options_.stream.empty())
      growing = std::make_unique<GrowingVideo>(
          context_.runtime().registry(), options_.stream, pipeline_.fps(request), options_.crf,
          about_.known(request), patience, [&] { return session.has_ended(); });
    VideoFiles files(
        context_, {base_of(request), options_.format, writes() ? pipeline_.fps(request) : 0, options_.crf});
    const auto drift = writes() ? drift_of(pipeline_, request) : nullptr;
    session.make_rest([&](const at::Tensor& frames) {
      if (!writes()) return;
      if (session.gives_chunks() && files.frames() == 0)
        files.grow(session.frames(), about_.known(request).dump());
      files.add(frames);
      if (drift) drift->add(frames);
      if (growing) growing->add(frames);
    });
    progress.finish();
    if (!writes()) return;
    const MadeVideo made{session.made(), files.frames(), files.height(), files.width()};
    json about = about_.described(request, made);
    store(request, made, files, about);
    if (growing) growing->finish(about);
    add_memory(about, pipeline_.device());
    json by_second = drift ? drift->finish(made.latent, pipeline_.tokenizer_info().time) : json();
    if (!by_second.is_null()) about["drift"] = std::move(by_second);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    about["seconds"] = seconds;
    if (!pipeline_.makes_codes()) about_.tell_speeds(about, made, seconds);
    or_throw(write_file_atomically(base_of(request).string() + ".json", about.dump(2) + "\n"));
    context_.metrics().line(about);
  }

  // Each chunk has steps of its own.
  void preview(const Request& request, int64_t chunk, int64_t step, const at::Tensor& frame) const {
    if (!writes()) return;
    const auto folder = context_.folder() / "previews" / base_of(request).filename();
    fs::create_directories(folder);
    const std::string of_chunk =
        pipeline_.spec().rule.teacher_forcing ? fmt::format("chunk_{:04}_", chunk) : "";
    write_strip(context_, frame, 1, folder / fmt::format("{}step_{:04}.png", of_chunk, step));
  }

  void drop(const Request& request) const {
    const std::string name = base_of(request).filename().string();
    std::error_code ignored;
    std::vector<fs::path> parts{context_.folder() / "previews" / name};
    for (const auto& entry : fs::directory_iterator(context_.folder() / "videos", ignored))
      if (const auto file = entry.path().filename().string(); file == name || file.starts_with(name + "."))
        parts.push_back(entry.path());
    for (const auto& part : parts) fs::remove_all(part, ignored);
  }

  fs::path base_of(const Request& request) const {
    return context_.folder() / "videos" / fmt::format("{:03}", request.number - options_.first);
  }

  // A denoiser that never saw given frames still makes something of them, but not much.
  void warn_of_untrained_condition() const {
    const JobSpec* train = context_.spec().component("model") ? nullptr : context_.upstream("train");
    if (!train || train->options.at("pipeline") != "" || pipeline_.makes_codes() ||
        (options_.image.empty() && options_.video.empty()))
      return;
    if (options_.strength == 1 && !is_trained_with_frames(*train))
      log_warn(
          "{}: job '{}' never trained with given frames, so what follows the first may have little to do "
          "with it; train with condition_frames = [0, 1]",
          context_.spec().name, train->name);
  }

  void store(const Request& request, const MadeVideo& made, VideoFiles& of_video, json& about) {
    const fs::path base = base_of(request);
    const std::string comment = about.dump();
    json files = json::array();
    const auto name = [&](const std::string& tail) {
      files.push_back(base.filename().string() + tail);
      return base.string() + tail;
    };
    for (const auto& format : options_.format)
      if (format == "latents")
        write_tensors(name(".latents.safetensors"),
                      {{pipeline_.makes_codes() ? "codes" : "latent", made.latent}}, {{"comment", comment}});
      else
        name(format == "png" ? "" : "." + format);
    name(".png");
    of_video.finish(comment);
    about["files"] = files;
  }

  JobContext& context_;
  GenerateOptions options_;
  Parallelism parallel_;
  inference::Pipeline pipeline_;
  json made_with_;
  AboutVideo about_;
  bool echo_ = false;  // the result is another rank's video
};

}  // namespace

class Generate final : public TensorJob {
 public:
  using Options = GenerateOptions;
  static JobParts parts();
  bool takes_pipeline_of(const json& table, const JobSpec& input) const override;

 private:
  void work(JobContext&) const override;
  void examine(JobCheck& check) const override { check_generate(check); }
};

// The weights that a train job made from a pipeline's own network are sampled as the folder says.
bool Generate::takes_pipeline_of(const json& table, const JobSpec& input) const {
  if (input.kind->name != "train" || table.contains("model")) return false;
  const fs::path folder = text_in(input.options, "pipeline");
  const auto is_its = [&](const json& path) {
    return path.is_string() && fs::path(path.get<std::string>()).lexically_normal().parent_path() ==
                                   (folder / "").lexically_normal().parent_path();
  };
  const json weights = input.options.value("weights", json::array());
  return is_its(weights) || std::any_of(weights.begin(), weights.end(), is_its);
}

JobParts Generate::parts() {
  return {
      .slots =
          {{.name = "sampler",
            .kind = "sampler",
            .use = "edm-heun",
            .required = true,
            .help = "sampler that turns noise into a sample; default for a distill job's model: that job's",
            .from = "distill"},
           {.name = "model",
            .kind = "model",
            .help = "published model to use instead of a train or distill job's",
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
            .help =
                "cache of the keys and values of earlier codes or chunks, for a model that draws codes one "
                "by one, whose given codes are pinned, or that makes a video chunk by chunk"},
           kCollectiveSlot},
      .reads = {"train", "distill", "train-tokenizer"},
      .needs_input = false,
      .tensors = true};
}

void Generate::work(JobContext& context) const {
  const auto options = context.options<GenerateOptions>();
  use_threads(options.threads);
  const at::NoGradGuard off;
  if (const int socket = socket_of_requests(); socket >= 0) {
    serve_requests(context, options, socket);
    throw Error(KINORA_ERROR_CANCELLED, "the requests have ended");  // there is no result to keep
  }
  const auto all = requests(context, options);
  GenerateJob job(context, options);
  if (job.is_first_rank()) note_unread(context, options, all, job.reads_text());
  const auto missing = job.missing(all);
  job.tell(all);
  if (missing.empty() && !options.stream.empty() && job.is_first_rank())
    log_warn("{}: the video is already complete, so nothing is written to stream = {}; its file is in {}",
             context.spec().name, options.stream, (context.folder() / "videos").string());
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

// stage/embed.model: embeds clips with any exported image or video model.
#include <ATen/ATen.h>

#include "exported.hpp"
#include "kinora/npy.hpp"
#include "kinora/plugin.hpp"

namespace kinora::exported {
namespace {

std::span<const float> numbers(const at::Tensor& t) {
  return {t.const_data_ptr<float>(), static_cast<size_t>(t.numel())};
}

}  // namespace

class EmbedModel final : public ModelStage<ModelOptions> {
 public:
  using Options = ModelOptions;
  static void describe(Describe<Options>& d);
  explicit EmbedModel(const Options& o);
  // Sets field NAME.npy [D], of norm 1; for a video with shots.json, shots.NAME.npy [shots, D], where a shot
  // without frames has a row of zeros.
  void process_batch(std::span<const Sample> in, const Emit& emit, const Run& run) override;

 private:
  at::Tensor embed(const std::vector<at::Tensor>& clips);
  void store(Sample& sample, const at::Tensor& row) const;
  void embed_shots(Sample& video, const Pictures& pictures, const Run& run);
};

void EmbedModel::describe(Describe<Options>& d) {
  d.name("embed.model")
      .help("Embeds frames with any exported model: TorchScript or an AOTInductor .pt2 package");
  d.input("frames", "[T, H, W, 3]", "uint8",
          "sampled RGB frames, upright; for a video with shots.json, fact frames_at is required too");
  d.option("model", &Options::model)
      .path()
      .required()
      .help("model file: TorchScript (.pt) or AOTInductor package (.pt2)");
  d.option("name", &Options::name)
      .help("output field NAME.npy; for a video with shots.json shots.NAME.npy, one row per shot");
  InputOptions::describe(d);
  d.option("output", &Options::output)
      .range(0, 64)
      .help("index of the model's output to use; one row per clip or frame");
  d.option("batch", &Options::batch)
      .range(1, 4096)
      .help(
          "clips per call, always this many: export a .pt2 of fixed shape with batch (BCHW: batch x frames)");
  Options::describe_device(d);
}

EmbedModel::EmbedModel(const Options& o) : ModelStage(o) {
  check_device(o.device);
  o.check("embed.model");
  if (o.name.empty() || o.name.find_first_of("/.") != std::string::npos)
    throw Error(KINORA_ERROR_INVALID,
                "embed.model: name must be a word without dots and slashes, such as \"clip\"");
  Model::check(o.model);
}

// Maps [F, 3, H, W] per clip to [clips, D], rows of norm 1.
at::Tensor EmbedModel::embed(const std::vector<at::Tensor>& clips) {
  use_threads(options_.threads);
  at::Tensor out = (*model_)(laid_out(clips, options_.batch, options_).to(device_), options_.output);
  const auto per_clip = options_.layout == "BCHW" ? options_.frames : 1;
  if (out.dim() < 2 || out.size(0) != options_.batch * per_clip)
    throw Error(KINORA_ERROR_DATA, "embed.model: expected one row for each of " +
                                       std::to_string(options_.batch * per_clip) + " inputs, got " +
                                       c10::str(out.sizes()));
  out = out.flatten(1);
  if (per_clip > 1) {  // normalise each frame's embedding, so that all frames count equally
    out = out / out.norm(2, {1}, true).clamp_min(1e-12);
    out = out.view({options_.batch, per_clip, -1}).mean(1);
  }
  out = out.narrow(0, 0, static_cast<int64_t>(clips.size()));
  if (!at::isfinite(out).all().item<bool>())
    throw Error(KINORA_ERROR_DATA,
                "embed.model: the model returned numbers that are not finite; try dtype = \"float32\"");
  return (out / out.norm(2, {1}, true).clamp_min(1e-12)).contiguous();
}

void EmbedModel::embed_shots(Sample& video, const Pictures& pictures, const Run& run) {
  const auto starts = shot_starts(video, json_field(video, "shots.json"));
  const auto of_frame = shots_of_frames(video, starts, pictures.count);
  const size_t shots = starts.size() + 1;
  std::vector<at::Tensor> waiting;
  std::vector<size_t> whose;
  at::Tensor rows;
  const auto flush = [&] {
    if (waiting.empty()) return;
    run.check_cancelled();
    const at::Tensor made = embed(waiting);
    if (!rows.defined()) rows = at::zeros({static_cast<int64_t>(shots), made.size(1)});
    for (size_t i = 0; i < whose.size(); ++i)
      rows[static_cast<int64_t>(whose[i])].copy_(made[static_cast<int64_t>(i)]);
    waiting.clear();
    whose.clear();
  };
  for (size_t shot = 0, first = 0; shot < shots; ++shot) {
    size_t end = first;
    while (end < of_frame.size() && of_frame[end] == shot) ++end;
    if (end == first) continue;
    waiting.push_back(prepared(
        pictures, spread(static_cast<int64_t>(first), static_cast<int64_t>(end - first), options_.frames),
        options_));
    whose.push_back(shot);
    first = end;
    if (static_cast<int64_t>(waiting.size()) == options_.batch) flush();
  }
  flush();
  video.set(("shots." + options_.name + ".npy").c_str(), to_npy(numbers(rows), {rows.size(0), rows.size(1)}));
}

void EmbedModel::process_batch(std::span<const Sample> in, const Emit& emit, const Run& run) {
  std::vector<Sample> samples;
  std::vector<at::Tensor> inputs;
  for (Sample sample : in) {
    const Pictures pictures = pictures_of(sample);
    if (sample.text("shots.json")) {
      embed_shots(sample, pictures, run);
      emit(std::move(sample));
    } else {
      inputs.push_back(prepared(pictures, spread(0, pictures.count, options_.frames), options_));
      samples.push_back(std::move(sample));
    }
  }
  if (samples.empty()) return;
  const at::Tensor rows = embed(inputs);
  for (size_t i = 0; i < samples.size(); ++i) {
    store(samples[i], rows[static_cast<int64_t>(i)]);
    emit(std::move(samples[i]));
  }
}

void EmbedModel::store(Sample& sample, const at::Tensor& row) const {
  sample.set((options_.name + ".npy").c_str(), to_npy(numbers(row), {row.numel()}));
  auto facts = json_field(sample, "json");
  note_embedding(facts, options_.name, std::filesystem::path(options_.model).filename().string(),
                 row.numel());
  sample.set("json", json_text(facts));
}

}  // namespace kinora::exported

using kinora::exported::EmbedModel;
KINORA_COMPONENT(EmbedModel)
KINORA_PLUGIN(EmbedModel, FilterModel)

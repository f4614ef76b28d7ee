// stage/filter.model: scores clips with any exported model, from frames or an embedding.
#include <limits>

#include <ATen/ATen.h>

#include "exported.hpp"
#include "kinora/npy.hpp"
#include "kinora/plugin.hpp"

namespace kinora::exported {

struct FilterOptions : ModelOptions {
  std::string from = "frames", reduction = "min", mode = "on";
  double threshold = 0;
};

class FilterModel final : public ModelStage<FilterOptions> {
 public:
  using Options = FilterOptions;
  static void describe(Describe<Options>& d);
  explicit FilterModel(const Options& o);
  // Sets json["scores"]["filter.NAME"]; with mode on, rule filter.NAME drops a sample below the threshold.
  void process_batch(std::span<const Sample> in, const Emit& emit, const Run& run) override;

 private:
  at::Tensor input_of(const Sample& sample) const;
  at::Tensor scores(const std::vector<at::Tensor>& inputs);
  void judge(Sample sample, double score, const Emit& emit) const;
  bool of_pictures() const { return options_.from == "frames"; }
  std::string rule_;
};

void FilterModel::describe(Describe<Options>& d) {
  d.name("filter.model")
      .help(
          "Scores clips with any exported model, for example an aesthetic score, and drops those below a "
          "threshold");
  d.input("frames", "[T, H, W, 3]", "uint8", "sampled RGB frames, upright", {.when = "from == frames"});
  d.option("model", &Options::model)
      .path()
      .required()
      .help("model file: TorchScript (.pt) or AOTInductor package (.pt2); its output is one number per row");
  d.option("name", &Options::name).help("name of the score and of the rule: filter.NAME");
  d.option("from", &Options::from)
      .help("input of the model: frames, or a field such as clip.npy, passed as [B, D]");
  InputOptions::describe(d);
  d.option("output", &Options::output).range(0, 64).help("index of the model's output to use");
  d.option("reduction", &Options::reduction)
      .choices({"min", "mean", "max"})
      .help("combination of the scores of a clip's frames, with layout BCHW");
  d.option("threshold", &Options::threshold)
      .required()
      .help("smallest score that passes, for example 3.5 for an aesthetic score; NaN is below everything");
  d.option("mode", &Options::mode)
      .choices({"on", "score"})
      .help("score: records the score and drops nothing");
  d.option("batch", &Options::batch).range(1, 4096).help("clips per call, always this many");
  Options::describe_device(d);
}

FilterModel::FilterModel(const Options& o) : ModelStage(o), rule_("filter." + o.name) {
  check_device(o.device);
  o.check("filter.model");
  if (!of_pictures() && !o.from.ends_with(".npy"))
    throw Error(KINORA_ERROR_INVALID, "filter.model: from = \"" + o.from +
                                          "\": expected \"frames\" or a field such as \"clip.npy\"");
  Model::check(o.model);
}

// Returns [F, 3, H, W], or the embedding [D].
at::Tensor FilterModel::input_of(const Sample& sample) const {
  if (of_pictures()) {
    const Pictures pictures = pictures_of(sample);
    return prepared(pictures, spread(0, pictures.count, options_.frames), options_);
  }
  const std::string file = std::string(sample.key()) + "." + options_.from;
  const auto bytes = sample.text(options_.from.c_str());
  if (!bytes)
    throw Error(KINORA_ERROR_NOT_FOUND,
                file + " is missing; put a stage embed.* with this name before filter.model");
  const FloatArray read = read_npy(*bytes, file);
  if (read.shape.size() != 1) throw Error(KINORA_ERROR_DATA, file + ": it must have one dimension");
  return at::tensor(read.values, at::kFloat);
}

// Returns one number per input: [inputs].
at::Tensor FilterModel::scores(const std::vector<at::Tensor>& inputs) {
  use_threads(options_.threads);
  at::Tensor x;
  if (of_pictures()) {
    x = laid_out(inputs, options_.batch, options_);
  } else {
    for (const auto& one : inputs)
      if (one.sizes() != inputs.front().sizes())
        throw Error(KINORA_ERROR_DATA,
                    options_.from + " has different sizes; embed all clips with one model");
    auto all = inputs;
    while (static_cast<int64_t>(all.size()) < options_.batch) all.push_back(all.back());
    x = at::stack(all).to(options_.type());
  }
  const auto per_clip = of_pictures() && options_.layout == "BCHW" ? options_.frames : 1;
  at::Tensor out = (*model_)(x.to(device_), options_.output);
  if (out.numel() != options_.batch * per_clip)
    throw Error(KINORA_ERROR_DATA, "filter.model: expected one number for each of " +
                                       std::to_string(options_.batch * per_clip) + " inputs, got " +
                                       c10::str(out.sizes()));
  out = out.to(at::kDouble).view({options_.batch, per_clip});
  out = options_.reduction == "min" ? out.amin(1) : options_.reduction == "max" ? out.amax(1) : out.mean(1);
  return out.narrow(0, 0, static_cast<int64_t>(inputs.size()));
}

void FilterModel::judge(Sample sample, double score, const Emit& emit) const {
  auto facts = json_field(sample, "json");
  note_score(facts, rule_, score);
  const bool is_dropped = options_.mode == "on" && !(score >= options_.threshold);
  if (is_dropped)
    note_bound(facts, rule_, score, options_.threshold, std::numeric_limits<double>::infinity());
  sample.set("json", json_text(facts));
  if (is_dropped)
    emit.drop(std::move(sample), rule_.c_str(), score);
  else
    emit(std::move(sample));
}

void FilterModel::process_batch(std::span<const Sample> in, const Emit& emit, const Run&) {
  std::vector<at::Tensor> inputs;
  for (const Sample& sample : in) inputs.push_back(input_of(sample));
  const at::Tensor all = scores(inputs);
  for (size_t i = 0; i < in.size(); ++i) judge(in[i], all[static_cast<int64_t>(i)].item<double>(), emit);
}

}  // namespace kinora::exported

using kinora::exported::FilterModel;
KINORA_COMPONENT(FilterModel)

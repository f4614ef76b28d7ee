#include "plugins/jobs/train-tokenizer/reconstruction_scores.hpp"

#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "core/plugin/opening.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

bool is_of_video(const std::string& input) { return input == "prediction" || input == "target"; }
bool is_of_features(const std::string& input) { return input == "real" || input == "made"; }

void require_inputs(const ComponentSpec& spec, bool has_features) {
  for (const auto& input : spec.inputs) {
    if (input.is_optional && !is_of_features(input.name)) continue;
    if (is_of_features(input.name) && !has_features)
      raise(KINORA_ERROR_INVALID,
            "scores: {} reads '{}', which comes from a feature model; set features, or remove the score",
            spec.id, input.name);
    if (!is_of_video(input.name) && !is_of_features(input.name))
      raise(KINORA_ERROR_INVALID,
            "scores: {} reads '{}'; this job has 'prediction' and 'target', two videos, and with a feature "
            "model 'real' and 'made'",
            spec.id, input.name);
  }
}

}  // namespace

ReconstructionScores::ReconstructionScores(const JobView& context, bool has_features)
    : job_(context.spec().name) {
  const auto given = context.spec().list("scores");
  for (const auto* use : given) add(context.open(*use), use->options, has_features);
  std::vector<const char*> usual;
  if (given.empty()) usual = {"psnr", "ssim"};
  if (given.empty() && has_features) usual.push_back("frechet");
  for (const char* name : usual) {
    const Component component = open_component(context.runtime().registry(), "score", name);
    add(component, or_throw(Options::make(*component.spec, json::object())), has_features);
  }
  if (has_features && std::none_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.of_features; }))
    raise(KINORA_ERROR_INVALID,
          "scores: none reads the features of the job's feature model; add \"frechet\", or remove the model");
  std::set<std::string> names;
  if (context.spec().component("perceptual")) names.insert("perceptual");
  for (const auto& part : parts_)
    for (const auto& output : part.component.spec->outputs)
      if (!names.insert(output.name).second)
        raise(KINORA_ERROR_INVALID, "scores: {} gives '{}', which another measure of this job gives too",
              part.component.spec->id, output.name);
}

void ReconstructionScores::add(const Component& component, const Options& options, bool has_features) {
  const auto& spec = *component.spec;
  require_inputs(spec, has_features);
  const bool of_features = std::any_of(spec.inputs.begin(), spec.inputs.end(),
                                       [](const TensorSpec& t) { return is_of_features(t.name); });
  parts_.push_back({component, options, of_features, std::make_unique<ScoreInstance>(component, options)});
}

void ReconstructionScores::update(bool of_features, const NamedTensors& in) {
  for (auto& part : parts_)
    if (part.of_features == of_features) part.score->update(in);
}

std::map<std::string, double> ReconstructionScores::numbers(const kinora_group& group) const {
  std::map<std::string, double> out;
  for (const auto& part : parts_) {
    const ScoreInstance* score = part.score.get();
    std::unique_ptr<ScoreInstance> whole;
    if (group.size > 1) {
      whole = std::make_unique<ScoreInstance>(part.component, part.options);
      merge_ranks(group, *score, *whole);
      score = whole.get();
    }
    try {
      for (const auto& [name, number] : score->compute()) out[name] = number;
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_UNSUPPORTED) throw;
      log_info("{}: the score is left out: {}", job_, e.what());
    }
  }
  return out;
}

}  // namespace kinora::core

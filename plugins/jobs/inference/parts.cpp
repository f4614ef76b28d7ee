#include "plugins/jobs/inference/parts.hpp"

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/io/contents.hpp"
#include "core/plugin/opening.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "host/weights/published_classes.hpp"
#include "host/weights/safetensors.hpp"
#include "host/weights/weights.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// The start of a digest.
std::string shown(const json& v) {
  if (v.is_object()) return fmt::format("{} {}", v.value("id", "?"), v.value("version", "?"));
  return v.is_string() ? fmt::format("{:.19}", v.get<std::string>()) : "none";
}

}  // namespace

Part part_of(const JobView& context, const std::string& slot, const std::string& weights_option,
             const std::string& trained_by) {
  const auto& spec = context.spec();
  auto weights = weights_in(spec.options, weights_option);
  if (const auto* own = spec.component(slot)) {
    if (weights.empty())
      throw Error(KINORA_ERROR_INVALID, "the job has its own " + slot +
                                            "; set its weights: " + weights_option + " = \"FILE or FOLDER\"");
    return {shared_use(*own), std::move(weights)};
  }
  const JobSpec* job = context.upstream(trained_by);
  if (!job)
    throw Error(KINORA_ERROR_INVALID, "the job needs a " + slot + ": make a job of kind " + trained_by +
                                          " its input, or set one: " + slot + " = { use = \"...\" } and " +
                                          weights_option + " = \"FILE or FOLDER\"");
  const JobSpec* distill = trained_by == "train" ? distilled_before(context) : nullptr;
  if (weights.empty())
    weights = {file_or_index(context.folder_of(distill ? *distill : *job) / "weights.safetensors")};
  return {shared_use(*job->component(slot)), std::move(weights)};
}

const JobSpec* distilled_before(const JobView& context) {
  for (const size_t input : context.spec().inputs)
    if (const auto& job = context.run().jobs[input]; job.kind->name == "distill") return &job;
  return nullptr;
}

std::unique_ptr<Tokenizer> open_part(const JobView& context, const Part& part, const ChainOptions& chain) {
  return open_part(context.runtime(), part, kept_digests(context.run().out), chain);
}

std::unique_ptr<Tokenizer> open_part(Runtime& runtime, const Part& part, const std::filesystem::path& kept,
                                     const ChainOptions& chain) {
  ChainOptions blank = chain;
  blank.blank = true;
  const Component component = open_component(runtime.registry(), {}, part.use->id);
  require_as_listed(part.weights, *component.spec, kept);
  auto network = std::make_unique<Tokenizer>(component, part.use->options, blank);
  network->load(part.weights);
  return network;
}

namespace {

std::vector<const JobSpec*> trained_before(const JobView& context) {
  std::vector<const JobSpec*> out;
  if (context.spec().component("model")) return out;  // a model of the job's own
  for (const size_t input : context.spec().inputs)
    if (const auto& job = context.run().jobs[input]; job.kind->name == "train" || job.kind->name == "distill")
      out.push_back(&job);
  return out;
}

WeightsPaths weights_of(const JobView& context, const JobSpec& train) {
  return {file_or_index(context.folder_of(train) / "weights.safetensors")};
}

std::string text_at(const JobSpec& job, const char* option) {
  return job.options.at(option).get<std::string>();
}

// The folder with two experts of which earlier jobs trained one or both; nullopt: there is none, or a job trained
// a model of its own, from no weights.
std::optional<PublishedExperts> folder_of_trained(const JobView& context, const ComponentSpec& spec,
                                                  const std::vector<const JobSpec*>& trained) {
  auto folders = std::vector{text_at(context.spec(), "pipeline")};
  for (const auto* job : trained) folders.push_back(text_at(*job, "pipeline"));
  for (const auto* job : trained)
    if (weights_in(job->options, "weights").empty()) return std::nullopt;
  for (const auto& folder : folders) {
    auto found = folder.empty() ? std::nullopt : published_experts(folder, spec);
    if (found && of_another_class(found->high / "config.json", spec).empty()) return found;
  }
  return std::nullopt;
}

// "high" or "low". Throws Error(KINORA_ERROR_INVALID) if nothing says which.
std::string trained_expert(const JobSpec& job, const PublishedExperts& folder) {
  if (const auto said = text_at(job, "expert"); !said.empty()) return said;
  for (const auto& path : weights_in(job.options, "weights")) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, folder.high, ignored)) return "high";
    if (std::filesystem::equivalent(path, folder.low, ignored)) return "low";
  }
  raise(KINORA_ERROR_INVALID,
        "input: the pipeline has two experts ({} and {}), and nothing says which of them job '{}' trained; "
        "set its "
        "`pipeline`, and expert = \"high\" or \"low\"",
        folder.high.string(), folder.low.string(), job.name);
}

void require_same_model(const JobSpec& a, const JobSpec& b) {
  const auto &one = *a.component("model"), &other = *b.component("model");
  if (one.id != other.id || one.options.values() != other.options.values())
    raise(KINORA_ERROR_INVALID,
          "input: jobs '{}' and '{}' trained models of different options; one video needs equal ones", a.name,
          b.name);
}

// Both experts of a published model of which earlier jobs trained one or both.
TwoExperts trained_experts(const JobView& context, const std::vector<const JobSpec*>& trained,
                           const PublishedExperts& folder, Part& model) {
  std::map<std::string, const JobSpec*> by_expert;
  for (const auto* job : trained) {
    const auto expert = trained_expert(*job, folder);
    if (!by_expert.emplace(expert, job).second)
      raise(KINORA_ERROR_INVALID,
            "input: jobs '{}' and '{}' both trained the expert for {} noise; name one of them",
            by_expert[expert]->name, job->name, expert);
    require_same_model(*trained[0], *job);
  }
  const auto& options = context.spec().options;
  const auto of = [&](const char* option, const char* expert, const std::filesystem::path& published) {
    if (auto given = weights_in(options, option); !given.empty()) return given;
    const auto job = by_expert.find(expert);
    return job == by_expert.end() ? WeightsPaths{published} : weights_of(context, *job->second);
  };
  model.weights = of("weights", "high", folder.high);
  const double boundary = options.at("boundary").get<double>();
  return {of("weights_2", "low", folder.low), boundary > 0 ? boundary : folder.boundary};
}

}  // namespace

std::optional<TwoExperts> two_experts(const JobView& context, Part& model) {
  const auto& options = context.spec().options;
  const auto& spec = *context.open(*model.use).spec;
  const auto trained = trained_before(context);
  if (!trained.empty()) {
    const auto folder = distilled_before(context) ? std::optional<PublishedExperts>()
                                                  : folder_of_trained(context, spec, trained);
    if (folder) return trained_experts(context, trained, *folder, model);
    if (trained.size() > 1)
      raise(KINORA_ERROR_INVALID,
            "input: jobs '{}' and '{}' each trained a model, and a video is made by one; name one of them. "
            "Two go "
            "together only as experts of a published pipeline, whose folder both train jobs name",
            trained[0]->name, trained[1]->name);
  }
  TwoExperts out{weights_in(options, "weights_2"), options.at("boundary").get<double>()};
  if (out.low.empty()) {
    if (out.boundary > 0 || options.at("guidance_2").get<double>() >= 0)
      raise(KINORA_ERROR_INVALID, "boundary and guidance_2 need a second expert; set its weights_2");
    return std::nullopt;
  }
  if (out.boundary == 0)
    raise(KINORA_ERROR_INVALID,
          "nothing says from where on the second expert denoises; set boundary, Wan 2.2 has 0.875 (text to "
          "video) and 0.9 (image to video), or set pipeline = \"FOLDER\"");
  return out;
}

Model& Experts::use(size_t expert) {
  if (!weights_[expert].empty() && loaded_ != expert) {
    log_info("loading the expert for {} noise", expert == 0 ? "high" : "low");
    networks_[expert]->load(weights_[expert]);
    loaded_ = expert;
  }
  return *networks_[expert];
}

json made_with(const JobContext& context, const std::map<std::string, Part>& parts,
               const std::filesystem::path& kept) {
  json weights = json::object(), components = json::object();
  for (const auto& [slot, part] : parts) {
    components[slot] = {{"id", part.use->id}, {"version", part.use->version}};
    if (!part.weights.empty())
      weights[slot] = weights_digest(weights_files(part.weights, *context.open(*part.use).spec), kept);
  }
  return {{"weights", weights}, {"components", components}};
}

std::string differences(const json& then, const json& now) {
  std::string out;
  if (!then.is_object()) return out;
  for (const char* what : {"weights", "components"}) {
    const json of_then = then.value(what, json::object()), of_now = now.value(what, json::object());
    if (!of_then.is_object()) continue;
    for (const auto& [slot, value] : of_then.items()) {
      const json here = of_now.value(slot, json());
      if (here == value) continue;
      out +=
          fmt::format("{}{}{} ({}, here {})", out.empty() ? "" : ", ",
                      what == std::string("weights") ? "weights of " : "", slot, shown(value), shown(here));
    }
  }
  return out;
}

}  // namespace kinora::core

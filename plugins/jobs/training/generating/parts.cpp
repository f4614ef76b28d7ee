#include "plugins/jobs/training/generating/parts.hpp"

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/io/safetensors.hpp"
#include "core/run/weights.hpp"
#include "core/torch/tensors/torch_guard.hpp"

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
    return {own, std::move(weights)};
  }
  const JobSpec* job = context.upstream(trained_by);
  if (!job)
    throw Error(KINORA_ERROR_INVALID, "the job needs a " + slot + ": make a job of kind " + trained_by +
                                          " its input, or set one: " + slot + " = { use = \"...\" } and " +
                                          weights_option + " = \"FILE or FOLDER\"");
  if (weights.empty()) weights = {file_or_index(context.folder_of(*job) / "weights.safetensors")};
  return {job->component(slot), std::move(weights)};
}

std::unique_ptr<Network> open_part(const JobView& context, const Part& part, const ChainOptions& chain) {
  ChainOptions blank = chain;
  blank.blank = true;
  auto network = std::make_unique<Network>(context.open(*part.use), part.use->options, blank);
  network->load(part.weights);
  return network;
}

std::optional<TwoExperts> two_experts(const JobView& context, Part& model) {
  const auto& options = context.spec().options;
  TwoExperts out{weights_in(options, "weights_2"), options.at("boundary").get<double>()};
  const auto folder = published_experts(model.weights.at(0), *context.open(*model.use).spec);
  if (folder) {
    model.weights[0] = folder->high;
    if (out.low.empty()) out.low = {folder->low};
    if (out.boundary == 0) out.boundary = folder->boundary;
  }
  if (out.low.empty()) {
    if (out.boundary > 0 || options.at("guidance_2").get<double>() >= 0)
      raise(KINORA_ERROR_INVALID, "boundary and guidance_2 need a second expert; set its weights_2");
    return std::nullopt;
  }
  if (out.boundary == 0)
    raise(KINORA_ERROR_INVALID,
          "the boundary of the second expert is not in any model_index.json; set boundary, Wan 2.2 has 0.875 "
          "(text to video) and 0.9 (image to video)");
  return out;
}

Network& Experts::use(size_t expert) {
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

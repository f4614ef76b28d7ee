// Whether an encode job makes the latents and texts that the networks of a published pipeline were trained on. Known
// from the run file, so a difference is an error before anything is encoded.
#include <fmt/ranges.h>

#include "host/weights/weights.hpp"
#include "plugins/jobs/published/published_pipeline.hpp"
#include "plugins/jobs/windows/window_checks.hpp"

namespace kinora::core {
namespace {

// The job's component as `slot = "own" ("the pipeline's")`, or the first of its options that the part's configuration
// contradicts; "" if it is the pipeline's part.
std::string other_part(const JobCheck& check, const PublishedPipeline& pipeline, const json& wanted,
                       const JobSpec& job, const std::string& slot, const char* part) {
  const auto* own = job.component(slot);
  const std::string name = own ? own->id.substr(own->id.find('/') + 1) : "none",
                    its = wanted.contains(slot) ? wanted[slot]["use"].get<std::string>() : "none";
  if (name != its) return fmt::format("{} = \"{}\" (\"{}\")", slot, name, its);
  if (!own) return "";
  const json& options = own->options.values();
  if (options.value("size", json("")) != "") return "";  // it stands for all other options
  const auto& spec = *or_throw(check.runtime().registry().find(own->id));
  const auto config = catching([&] { return read_config(pipeline.folder / part, spec, true); });
  if (!config) return "";  // a train job needs no more of the folder than the model
  for (const auto& [option, value] : config->items())
    if (const json is = options.value(option, json()); is != value)
      return fmt::format("{}.{} = {} ({})", slot, option, is.dump(), value.dump());
  return "";
}

// Adds a problem that lists the differences; returns whether there is none.
bool agree(JobCheck& check, const PublishedPipeline& pipeline, const JobSpec& encode,
           std::vector<std::string> differences) {
  std::erase(differences, "");
  if (!differences.empty())
    check.problem("input",
                  fmt::format("job '{}' makes other latents or texts than {} reads: {} (its values in "
                              "brackets); give both jobs the same pipeline",
                              encode.name, pipeline.folder.string(), fmt::join(differences, ", ")));
  return differences.empty();
}

// A pipeline, and what an encode job with it would have.
struct PipelineLatents {
  PublishedPipeline pipeline;
  json options;
};
// nullopt if there is nothing to compare: no folder, one that cannot be read, which is reported elsewhere, or the
// encode job's own, of which that job may have replaced parts.
std::optional<PipelineLatents> wanted_of(const std::string& folder, const JobSpec& encode) {
  std::error_code ignored;
  if (std::filesystem::equivalent(encode.options.at("pipeline").get<std::string>(), folder, ignored))
    return std::nullopt;
  const auto out = catching([&] {
    PublishedPipeline pipeline(folder);
    json options = pipeline.options("encode");
    return PipelineLatents{std::move(pipeline), std::move(options)};
  });
  return out ? std::optional(*out) : std::nullopt;
}

}  // namespace

bool check_latents(JobCheck& check, const std::string& folder) {
  const JobSpec* encode = check.upstream("encode");
  const auto wanted = encode ? wanted_of(folder, *encode) : std::nullopt;
  if (!wanted || check.spec().component("model")->id != wanted->pipeline.component("transformer"))
    return true;
  const auto part = [&](const char* slot, const char* name) {
    return other_part(check, wanted->pipeline, wanted->options, *encode, slot, name);
  };
  std::vector<std::string> differences{part("text", "text_encoder"), part("image_encoder", "image_encoder")};
  if (encode->component("tokenizer")) differences.push_back(part("tokenizer", "vae"));  // else a trained one
  for (const char* option : {"first_frame", "last_frame", "pad_text", "scale", "sigma_data"}) {
    const json is = encode->options.at(option), its = wanted->options.value(option, json(false));
    if (is != its) differences.push_back(fmt::format("{} = {} ({})", option, is.dump(), its.dump()));
  }
  return agree(check, wanted->pipeline, *encode, std::move(differences));
}

bool check_decoder(JobCheck& check, const std::string& folder) {
  const JobSpec* encode = check.upstream("encode");
  if (!encode || !encode->component("tokenizer") || !check.spec().component("tokenizer")) return true;
  const auto wanted = wanted_of(folder, *encode);
  if (!wanted) return true;
  const auto part = [&](const JobSpec& job) {
    return other_part(check, wanted->pipeline, wanted->options, job, "tokenizer", "vae");
  };
  if (!part(check.spec()).empty()) return true;  // the job has a tokenizer of its own
  return agree(check, wanted->pipeline, *encode, {part(*encode)});
}

}  // namespace kinora::core

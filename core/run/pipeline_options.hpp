// The folder of a published pipeline (model_index.json) as the options of a job that a user would write by
// hand.
#pragma once
#include <filesystem>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

// A published pipeline: a folder with model_index.json. `kinora inspect` shows it.
struct PublishedPipeline {
  std::filesystem::path folder;
  nlohmann::json index;
  std::string name;      // class of the pipeline: "WanPipeline"
  bool from_text_alone;  // it can begin with no picture

  // Throws kinora::Error(KINORA_NOT_FOUND, KINORA_DATA, KINORA_UNSUPPORTED).
  explicit PublishedPipeline(const std::filesystem::path& folder);
  // A part that the index names and that is not null.
  bool has(const std::string& part) const;
  // KIND/NAME of the component of a part: "model/wan" of transformer. Throws
  // kinora::Error(KINORA_UNSUPPORTED).
  std::string component(const std::string& part) const;
  // A part's configuration.
  nlohmann::json config(const std::string& part, const std::string& file = "config.json") const;
  // All of a job of this kind ("generate", "encode", "train", "train-tokenizer") that the folder says, in the
  // words of a run file; the pipeline's call by its defaults. before: kinds of the jobs that it reads, whose
  // networks count. own_sampler: the job has one, so the folder's may be an unknown one.
  nlohmann::json options(const std::string& kind, const std::set<std::string>& before = {},
                         bool own_sampler = false) const;
};

// KIND/NAME of the component that the folder of a single network (config.json) is of. Throws kinora::Error.
std::string published_component(const std::filesystem::path& folder);

// Completes a job's table that has `pipeline` = folder: options and components' options are taken from the
// folder where the table has none. One log line under the job's name says what the table overrides. Weights
// are loaded over the pipeline's own. Throws kinora::Error.
nlohmann::json with_pipeline(const std::string& kind, const std::string& job, nlohmann::json table,
                             const std::filesystem::path& folder, const std::set<std::string>& before = {});

}  // namespace kinora::core

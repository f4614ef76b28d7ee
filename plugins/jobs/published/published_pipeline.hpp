// Translates the folder of a published pipeline (model_index.json) into the job options that a user would
// write by hand.
#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

class Contents;

// A published pipeline: a folder with model_index.json. `kinora inspect` shows it.
struct PublishedPipeline {
  std::filesystem::path folder;
  nlohmann::json index;
  std::string name;      // class of the pipeline: "WanPipeline"
  bool from_text_alone;  // it can generate without a picture

  // Throws kinora::Error(KINORA_ERROR_NOT_FOUND, KINORA_ERROR_DATA, KINORA_ERROR_UNSUPPORTED).
  explicit PublishedPipeline(const std::filesystem::path& folder);
  // Whether the index names this part and it is not null.
  bool has(const std::string& part) const;
  // Whether it can begin with a picture or a video: its model was trained with given frames.
  bool takes_frames() const;
  // KIND/NAME of the component of a part: "model/wan" of transformer. Throws
  // kinora::Error(KINORA_ERROR_UNSUPPORTED).
  std::string component(const std::string& part) const;
  // Throws kinora::Error(KINORA_ERROR_NOT_FOUND) that names every missing part among these folders of parts; a
  // network's without its config.json is missing too.
  void require_parts(const std::set<std::filesystem::path>& read) const;
  void require_all_parts() const;  // of those that the index names
  // A part's configuration.
  nlohmann::json config(const std::string& part, const std::string& file = "config.json") const;
  // The place of the job that asks: its inputs, and its options that decide between parts of the folder.
  struct Requester {
    std::set<std::string> before;  // kinds of the upstream jobs, whose networks take precedence
    bool own_sampler = false;      // the job names a sampler, so the folder's may be unknown
    std::string expert;            // "high" or "low": the one of two experts that a train job trains
  };
  // The share of the timesteps below which the second of two experts denoises; 0: it has one network.
  double boundary() const;
  // All options of a job of this kind ("generate", "encode", "train", "train-tokenizer") that the folder
  // determines, under their names in a run file, with the defaults of the pipeline's call.
  nlohmann::json options(const std::string& kind, const Requester& asked) const;
  nlohmann::json options(const std::string& kind) const { return options(kind, Requester()); }
};

// KIND/NAME of the component for the folder of a single network (config.json). Throws kinora::Error.
std::string published_component(const std::filesystem::path& folder);

// Completes a job's table that has `pipeline` = folder: options and components' options that the table omits
// come from the folder. One log line under the job's name lists what the table overrides. The table's weights
// are loaded over the pipeline's own; what is replaced leaves every other part as the folder has it. A train
// job of both experts becomes an array of two tables. Throws kinora::Error.
nlohmann::json with_pipeline(const std::string& kind, const std::string& job, nlohmann::json table,
                             const std::filesystem::path& folder, const std::set<std::string>& before = {});

// Replaces the option `pipeline` by what counts of the folder for a job's identity: nothing, since the job has the
// options that come from it, or of two experts the boundary and the contents of both, of which a generate job takes
// the one that was not trained.
void count_pipeline(Contents&, nlohmann::json& options);

}  // namespace kinora::core

// The networks of a job: where each and its weights come from, the two experts that one model may consist of,
// and the record of what a video was made with.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "core/run/job.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "plugins/jobs/inference/paths_option.hpp"

namespace kinora::core {

// A component and, for a network, its weights.
struct Part {
  std::shared_ptr<const ComponentUse> use;  // never null
  WeightsPaths weights;
};
// A copy, which outlives the run file.
inline std::shared_ptr<const ComponentUse> shared_use(const ComponentUse& use) {
  return std::make_shared<const ComponentUse>(use);
}

// The job's own slot of that name with the files or folders of its option weights_option; without the slot,
// the network that the nearest earlier job of kind `trained_by` trained, with its weights or those of the
// option. The model of a train job that a direct input distilled has the weights of that distill job. Throws
// Error(KINORA_ERROR_INVALID) that names both ways if there is neither.
Part part_of(const JobView&, const std::string& slot, const std::string& weights_option,
             const std::string& trained_by);

// The distill job among the direct inputs, which made the model of its own train job a few-step one; null: none.
const JobSpec* distilled_before(const JobView&);

// Opens a tokenizer with its weights, compared with the list of who wrote them
// (`kept`, see kept_digests()); a model is opened by its owner, who knows the links.
std::unique_ptr<Tokenizer> open_part(Runtime&, const Part&, const std::filesystem::path& kept,
                                     const ChainOptions& = {});
std::unique_ptr<Tokenizer> open_part(const JobView&, const Part&, const ChainOptions& = {});

// Where the weights of the second of two experts are, and from which timestep on it denoises.
struct TwoExperts {
  WeightsPaths low;
  double boundary = 0;  // share of the timesteps
};
// From the job's options weights_2 and boundary, or, for a model that earlier jobs trained, from those jobs
// (option `expert`), with the other expert and the boundary from the folder of this job's option `pipeline`
// or theirs. `model` then has the first expert's weights. Nothing if there is only one expert. Throws
// Error(KINORA_ERROR_INVALID) if they contradict each other or something is unknown.
std::optional<TwoExperts> two_experts(const JobView&, Part& model);

// The networks behind one denoiser: one, or two that divide the noise levels between them. Wan 2.2 (A14B) has
// an expert for the timesteps from pure noise down to a boundary and another below it; both have the same
// architecture. Networks are kept by reference.
class Experts {
 public:
  // One network with its weights.
  explicit Experts(Model& model) : networks_{&model, &model} {}
  // high, low: two networks with their weights.
  Experts(Model& high, Model& low, double boundary) : networks_{&high, &low}, boundary_(boundary) {}
  // One network that receives each expert's weights in turn and now has the first's. Half the memory.
  Experts(Model& model, WeightsPaths high, WeightsPaths low, double boundary)
      : networks_{&model, &model}, weights_{std::move(high), std::move(low)}, boundary_(boundary) {}

  // Share of the timesteps below which the second expert denoises; 0: there is only one.
  double boundary() const { return boundary_; }
  // The network of expert 0 or 1 with its weights loaded.
  Model& use(size_t expert);

 private:
  std::array<Model*, 2> networks_;
  std::array<WeightsPaths, 2> weights_;  // empty: both are in memory
  double boundary_ = 0;
  size_t loaded_ = 0;
};

// The parts that made a video, {"weights": {SLOT: "sha256:..."}, "components": {SLOT: {"id", "version"}}}.
// kept: see weights_digest().
nlohmann::json made_with(const JobContext&, const std::map<std::string, Part>& parts,
                         const std::filesystem::path& kept);

// How two such records differ, as a list such as "weights of model (sha256:0123abcd..., here
// sha256:4567cdef...)"; "" if everything in `then` is the same now. Members that `then` lacks are not
// compared.
std::string differences(const nlohmann::json& then, const nlohmann::json& now);

}  // namespace kinora::core

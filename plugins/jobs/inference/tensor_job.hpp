// The base class and the slots of all kinds of jobs with tensors. Only for plugins, not for libraries.
#pragma once
#include "core/run/job_plugin.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/published/published_pipeline.hpp"

namespace kinora::core {

// Runs and checks a job; reports libtorch's errors without its stack trace.
class TensorJob : public JobType {
 public:
  void run(JobContext& job) const final {
    with_plain_errors([&] {
      require(job);
      work(job);
    });
  }
  void check(JobCheck& job) const final {
    with_plain_errors([&] { examine(job); });
  }
  nlohmann::json from_pipeline(const std::string& kind, const std::string& job, nlohmann::json table,
                               const std::filesystem::path& folder,
                               const std::set<std::string>& before) const final {
    return with_pipeline(kind, job, std::move(table), folder, before);
  }
  void count_options(Contents& contents, nlohmann::json& options) const final {
    count_pipeline(contents, options);
  }

 private:
  virtual void work(JobContext&) const = 0;  // called after the check
  virtual void examine(JobCheck&) const = 0;
};

// Slots that several kinds of jobs have.
inline const Slot kOptimizerSlot{.name = "optimizer",
                                 .kind = "optimizer",
                                 .use = "adamw",
                                 .required = true,
                                 .help = "change of the weights by their gradients"};
inline const Slot kTransformsSlot{
    .name = "transforms",
    .kind = "stage",
    .list = true,
    .help = "stages that each sample of a table of data passes before it is used, in order"};
inline const Slot kPrecisionSlot{.name = "precision",
                                 .kind = "precision",
                                 .use = "fp32",
                                 .required = true,
                                 .help = "number format of linear layers and attention"};
inline const Slot kPublishedTokenizerSlot{
    .name = "tokenizer",
    .kind = "tokenizer",
    .help = "published tokenizer to use instead of a train-tokenizer job's",
    .weights = "tokenizer_weights"};
inline const Slot kTextSlot{.name = "text",
                            .kind = "model",
                            .use = "minilm",
                            .required = true,
                            .help = "text encoder",
                            .weights = "text_weights"};
// Its vocabulary has no default, so a job must set it.
inline const Slot kWordsSlot{
    .name = "words",
    .kind = "stage",
    .use = "text.wordpiece",
    .required = true,
    .help =
        "stage that turns text into tokens, such as words = { use = \"text.wordpiece\", "
        "vocab = \"asset:minilm/vocab.txt\" }"};

}  // namespace kinora::core

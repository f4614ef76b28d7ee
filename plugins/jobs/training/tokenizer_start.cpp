#include "plugins/jobs/training/tokenizer_start.hpp"

#include <fstream>

#include "core/io/atomic_file.hpp"
#include "core/base/log.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/partial_init.hpp"
#include "core/torch/weights/published.hpp"

namespace kinora::core {
namespace {

constexpr const char* kTable = "weights.txt";

}  // namespace

void require_one_start(const TrainTokenizerOptions& o) {
  if (o.start == "principal" && !o.weights.empty())
    raise(KINORA_INVALID, "start = \"principal\" and weights = \"{}\" both set the initial weights; remove one",
          o.weights.front().string());
}

void start_from(JobContext& context, Network& tokenizer, const WeightsPaths& weights, bool partial,
                bool writes) {
  if (!partial) return tokenizer.load(weights);
  auto& chain = tokenizer.chain();
  const PublishedWeights file(weights, context.open_slot("tokenizer"), chain.parameters());
  const PartialReport report =
      load_partially(chain.parameters(), chain.leaves(), file.names(), file.find(),
                     {.seed = static_cast<uint64_t>(context.run().seed), .name_in_file = {}});
  if (writes) or_throw(write_file_atomically(context.folder() / kTable, report.text() + "\n"));
  log_info("{}: of {}: {}", context.spec().name, weights.back().string(), report.text());
}

std::string start_counts(const JobContext& context) {
  std::ifstream in(context.folder() / kTable);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace kinora::core

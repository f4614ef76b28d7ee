#include "core/run/one_stage.hpp"

#include "core/base/log.hpp"
#include "core/run/call.hpp"
#include "core/run/stage_results.hpp"

namespace kinora::core {
namespace {

// Says why the stage emitted no sample.
std::string losses(const StageResults& results) {
  if (!results.failed.empty()) return " (" + results.failed.front().reason + ")";
  if (!results.held.empty()) return " (the stage still holds it)";
  return results.dropped.empty() ? "" : " (filtered by " + results.dropped.front().rule + ")";
}

void process_once(StageInstance& instance, const Sample& in, StageResults& results) {
  results = {};
  results.input = in.key();
  const kinora_emit sink = results.sink();
  Call call;
  instance.process(in.clone(in.key()).get(), sink, run_of(call));
}

}  // namespace

OneStage::OneStage(Registry& registry, const std::string& id, const json& options, const Isolation& isolation)
    : OneStage(registry, id, or_throw(Options::make(*or_throw(registry.find("stage", id)), options)),
               isolation) {}

// A process may die of lack of memory, so a sample is at fault only if a second process dies of it too.
Sample OneStage::operator()(const Sample& in) const {
  StageResults results;
  try {
    process_once(instance_, in, results);
  } catch (const StageInstance::ProcessEnded& first) {
    log_warn("{}; trying again", first.what());
    try {
      process_once(instance_, in, results);
    } catch (const StageInstance::ProcessEnded& second) {
      throw Error(KINORA_DATA, std::string(second.what()) + ", twice");
    }
  }
  if (results.emitted.size() != 1)
    throw Error(KINORA_DATA, instance_.id() + ": " + std::string(in.key()) + ": expected one result, got " +
                                 std::to_string(results.emitted.size()) + losses(results));
  return std::move(results.emitted.front());
}

}  // namespace kinora::core

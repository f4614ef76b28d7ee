#include "core/run/one_stage.hpp"

#include "core/plugin/host.hpp"
#include "core/run/call.hpp"
#include "core/run/stage_results.hpp"

namespace kinora::core {
namespace {

// Why samples did not go on.
std::string losses(const StageResults& results) {
  if (!results.failed.empty()) return " (" + results.failed.front().reason + ")";
  if (!results.held.empty()) return " (it is kept back)";
  return results.dropped.empty() ? "" : " (filtered by " + results.dropped.front().rule + ")";
}

}  // namespace

OneStage::OneStage(Registry& registry, const std::string& id, const json& options)
    : OneStage(registry, id, or_throw(Options::make(*or_throw(registry.find("stage", id)), options))) {}

OneStage::OneStage(Registry& registry, const std::string& id, const Options& options) {
  const Component component = or_throw(registry.open("stage", id));
  id_ = component.spec->id;
  stage_ = &component.table<kinora_stage>();
  self_ = made(stage_->create(host(), options.abi()), id_);
}

OneStage::~OneStage() {
  if (self_) stage_->destroy(self_);
}

kinora_resources OneStage::resources() const {
  kinora_resources out{};
  out.struct_size = sizeof out;
  called(stage_->resources(self_, &out), id_);
  return out;
}

Sample OneStage::operator()(const Sample& in) const {
  StageResults results;
  const kinora_emit sink = results.sink();
  results.input = in.key();
  Call call;
  const kinora_run run = run_of(call);
  called(stage_->process(self_, in.clone(in.key()).get(), &sink, &run), id_);
  if (results.emitted.size() != 1)
    throw Error(KINORA_DATA, id_ + ": " + std::string(in.key()) + ": expected one result, got " +
                                 std::to_string(results.emitted.size()) + losses(results));
  return std::move(results.emitted.front());
}

}  // namespace kinora::core

#include "core/run/one_stage.hpp"

#include "core/run/cancel.hpp"

namespace kinora::core {
namespace {

struct Results {
  std::vector<Sample> emitted;
  std::string dropped;  // rule of a sample that was filtered

  static Results& of(void* self) { return *static_cast<Results*>(self); }
  kinora_emit sink() {
    kinora_emit e{};
    e.struct_size = sizeof e;
    e.self = this;
    e.emit = [](void* self, kinora_sample* s) {
      return guard([&] { of(self).emitted.push_back(Sample::adopt(s)); });
    };
    e.drop = [](void* self, kinora_sample* s, const char* rule, double) {
      return guard([&] {
        const Sample gone = Sample::adopt(s);
        of(self).dropped = rule;
      });
    };
    return e;
  }
};

}  // namespace

OneStage::OneStage(Runtime& runtime, const std::string& id, const json& options)
    : OneStage(runtime, id,
               or_throw(Options::make(*or_throw(runtime.registry().find("stage", id)), options))) {}

OneStage::OneStage(Runtime& runtime, const std::string& id, const Options& options) {
  const Component component = or_throw(runtime.registry().open("stage", id));
  id_ = component.spec->id;
  stage_ = &component.table<kinora_stage>();
  self_ = made(stage_->create(host(), options.abi()), id_);
}

OneStage::~OneStage() {
  if (self_) stage_->destroy(self_);
}

Sample OneStage::operator()(const Sample& in) const {
  Results results;
  const kinora_emit sink = results.sink();
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  run.cancelled = [](void*) -> int32_t { return cancelled() ? KINORA_CANCELLED : KINORA_OK; };
  check(stage_->process(self_, in.clone(in.key()).get(), &sink, &run));
  if (results.emitted.size() != 1)
    throw Error(KINORA_DATA, id_ + ": " + std::string(in.key()) + ": expected one result, got " +
                                 std::to_string(results.emitted.size()) +
                                 (results.dropped.empty() ? "" : " (filtered by " + results.dropped + ")"));
  return std::move(results.emitted.front());
}

}  // namespace kinora::core

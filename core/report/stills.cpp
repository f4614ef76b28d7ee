#include "core/report/stills.hpp"

#include <thread>

#include "core/options.hpp"
#include "core/plugin/host.hpp"
#include "core/run/cancel.hpp"
#include "core/run/stage_results.hpp"
#include "kinora/abi/stage.h"
#include "kinora/sample.hpp"

namespace kinora::core::report {
namespace {

// What a stage makes of a sample; an Error if it makes nothing.
Sample passed_through(Registry& registry, const char* id, const json& given, const Sample& in) {
  const Component component = or_throw(registry.open(id));
  const Options options = or_throw(Options::make(*component.spec, given));
  const auto& stage = component.table<kinora_stage>();
  void* self = stage.create(&core_host(), options.abi());
  if (!self) throw Error(KINORA_FAILED, take_error(id).message);
  const std::unique_ptr<void, void (*)(void*)> owned(self, stage.destroy);

  StageResults results;
  const kinora_emit sink = results.sink();
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  run.cancelled = [](void*) -> int32_t { return cancelled() ? KINORA_CANCELLED : KINORA_OK; };
  or_throw(from_abi(stage.process(self, in.get(), &sink, &run), id));
  if (results.emitted.empty()) throw Error(KINORA_FAILED, std::string(id) + " gave no sample back");
  return std::move(results.emitted.back());
}

std::string jpeg_of(Registry& registry, const StillRequest& request) {
  const auto threads = std::min<unsigned>(std::max(1U, std::thread::hardware_concurrency()), 8);
  Sample sample("still");
  sample.set("url", request.media);
  const json read{{"first", request.frame},
                  {"frames", 1},
                  {"height", request.height},
                  {"width", request.width},
                  {"threads", threads}};
  sample = passed_through(registry, "stage/video.read", read, sample);
  sample = passed_through(registry, "stage/video.write", {{"format", "jpeg"}, {"quality", 82}}, sample);
  return std::string(sample.need("jpg"));
}

}  // namespace

Still Stills::operator()(const StillRequest& request) {
  if (request.media.empty()) return {"", "no file is named"};
  if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
  if (request.frame > frames_left_) return {"", "too deep in a long film to decode for a picture"};
  frames_left_ -= request.frame;
  auto jpeg = catching([&] { return jpeg_of(registry_, request); });
  if (!jpeg) return {"", jpeg.failure().message};
  return {*std::move(jpeg), ""};
}

}  // namespace kinora::core::report

#include "core/run/call.hpp"

#include "core/base/cancel.hpp"
#include "core/runtime/torch_library.hpp"
#include "kinora/error.hpp"

namespace kinora::core {

kinora_run run_of(Call& call) {
  kinora_run run{};
  run.struct_size = sizeof run;
  run.device_type = KINORA_DL_CPU;
  run.n_threads = 1;
  run.seed = call.seed;
  run.self = &call;
  run.progress = [](void* self, int64_t done, int64_t, kinora_tensor preview) -> int32_t {
    auto& c = *static_cast<Call*>(self);
    if (c.progress) c.progress->update(done);
    if (cancelled()) return KINORA_CANCELLED;
    return c.preview && preview ? guard([&] { c.preview(done, preview); }) : KINORA_OK;
  };
  run.cancelled = [](void*) -> int32_t { return cancelled() ? KINORA_CANCELLED : KINORA_OK; };
  run.noise = [](void* self, const char* key, kinora_tensor like, kinora_tensor* out) {
    const auto& c = *static_cast<const Call*>(self);
    return draw_noise(c.seed, c.first_sample, key, like, out);
  };
  return run;
}

}  // namespace kinora::core

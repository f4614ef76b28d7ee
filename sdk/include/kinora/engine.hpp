// An engine in C++, see abi/engine.h.
#pragma once
#include "kinora/abi/engine.h"
#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "kinora/sample.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A subclass T has: struct Options; static void describe(Describe<Options>&); explicit T(const Options&).
class Engine {
 public:
  static constexpr const char* kind = "engine";
  static constexpr const char* interface_id = KINORA_INTERFACE_ENGINE;
  virtual ~Engine() = default;
  // Returns when every input has ended and its outcome was passed to pipeline.done. Throws the first error of
  // next(), done() or finish(), or Error(KINORA_ERROR_CANCELLED). In both cases all workers have stopped.
  virtual void run(const kinora_pipeline& pipeline, const Run& run) = 0;

  template <class T>
  static const void* api() {
    static const kinora_engine table{
        sizeof(kinora_engine), 0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Engine* made = nullptr;
          guard([&] { made = new T(described<T>().read(o)); });
          return made;
        },
        [](void* self) { delete static_cast<Engine*>(self); },
        [](void* self, const kinora_pipeline* pipeline, const kinora_run* r) {
          return guard([&] { static_cast<Engine*>(self)->run(*pipeline, Run(r)); });
        }};
    return &table;
  }
};

}  // namespace kinora

KINORA_SDK_END

#pragma once

// The stages of the built plugin, for tests that go through the C ABI.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/run/one_stage.hpp"
#include "core/run/stage_results.hpp"

namespace kinora::video::testing {

using core::json;

inline core::Runtime& runtime() {
  static const auto started = core::or_throw(core::Runtime::start({}));
  return *started;
}

// Samples need a host, and the first one is made before the first stage.
struct Started : ::testing::Environment {
  void SetUp() override { runtime(); }
};
[[maybe_unused]] inline const auto* const started = ::testing::AddGlobalTestEnvironment(new Started);

// What a stage makes of a sample, and the error that it ends with.
struct Applied {
  core::StageResults results;
  std::string error;
};
inline Applied applied(const char* id, const json& given, const Sample& in) {
  const core::Component component = core::or_throw(runtime().registry().open("stage", id));
  const auto options = core::or_throw(core::Options::make(*component.spec, given));
  const auto& stage = component.table<kinora_stage>();
  const std::unique_ptr<void, void (*)(void*)> self(stage.create(host(), options.abi()), stage.destroy);
  Applied out;
  const kinora_emit sink = out.results.sink();
  kinora_run run{};
  run.struct_size = sizeof run;
  run.n_threads = 2;
  run.cancelled = [](void*) -> int32_t { return KINORA_OK; };
  try {
    check(stage.process(self.get(), in.get(), &sink, &run));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_DATA);
    out.error = e.what();
  }
  return out;
}

}  // namespace kinora::video::testing

#pragma once

// Runs stages of the built plugin through the C ABI, for tests.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "host/stages/one_stage.hpp"
#include "media/media_testing.hpp"

namespace kinora::video::testing {

using core::json;

inline core::Runtime& runtime() {
  static const auto started = core::or_throw(core::Runtime::start({}));
  return *started;
}

// Starts the host before the first test, because samples need it.
struct Started : ::testing::Environment {
  void SetUp() override { runtime(); }
};
[[maybe_unused]] inline const auto* const started = ::testing::AddGlobalTestEnvironment(new Started);

// A stage's results for a sample, and its error, if any.
struct Applied {
  core::StageResults results;
  std::string error;
};
inline Applied applied(const char* id, const json& given, const Sample& in, const std::string& folder = "") {
  const core::Component component = core::or_throw(runtime().registry().open("stage", id));
  const auto options = core::or_throw(core::Options::make(*component.spec, given));
  const auto& stage = component.table<kinora_stage>();
  const std::unique_ptr<void, void (*)(void*)> self(stage.create(host(), options.abi()), stage.destroy);
  Applied out;
  const kinora_emit sink = out.results.sink();
  kinora_run run{};
  run.struct_size = sizeof run;
  run.n_threads = 2;
  run.out = {folder.data(), folder.size()};
  run.cancelled = [](void*) -> int32_t { return KINORA_OK; };
  try {
    if (stage.start) check(stage.start(self.get(), &run));
    check(stage.process(self.get(), in.get(), &sink, &run));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
    out.error = e.what();
  }
  return out;
}

// Whether the weights of TransNet V2 are among the assets.
inline bool has_published_weights() {
  const char* assets = std::getenv("KINORA_ASSETS");
  return std::filesystem::exists(std::filesystem::path(assets ? assets : "") / "transnetv2" /
                                 "transnetv2.safetensors");
}

// A sample with key "film" for the video of this name in the test data.
inline Sample video_at(const std::string& name) {
  Sample out("film");
  out.set("url", data(name).string());
  return out;
}

inline json facts_in(const Sample& s) { return json::parse(s.need("json")); }

// Returns a shell command's standard output; empty if it fails.
inline Bytes output_of(const std::string& command) {
  Bytes out;
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  uint8_t buffer[65536];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    out.insert(out.end(), buffer, buffer + n);
  return pclose(pipe) == 0 ? out : Bytes{};
}

}  // namespace kinora::video::testing

// The option `decoder` of the stages that decode. Without a card, "auto" is the CPU, and the log has one line.
#include "core/base/log.hpp"
#include "media/hardware_decoder.hpp"
#include "stage_testing.hpp"

namespace kinora::video {
namespace {

using core::json;
using testing::applied;
using ::testing::HasSubstr;
using testing::runtime;
using testing::video_at;

const std::vector<const char*> kStages = {"shots", "shots.content", "video.read", "clip.transcode",
                                          "video.clips"};

// Calls f(instance, table) for a stage with its option decoder.
template <class F>
auto with_stage(const char* id, const char* decoder, F f) {
  const core::Component component = core::or_throw(runtime().registry().open("stage", id));
  const auto options = core::or_throw(core::Options::make(*component.spec, {{"decoder", decoder}}));
  const auto& stage = component.table<kinora_stage>();
  const std::unique_ptr<void, void (*)(void*)> self(stage.create(host(), options.abi()), stage.destroy);
  return f(self.get(), stage);
}

// All bytes that the stage makes of a video.
std::string results(const char* id, const char* decoder) {
  const auto out = applied(id, {{"decoder", decoder}}, video_at("bbb_A.mp4"));
  EXPECT_EQ(out.error, "") << id;
  std::string all;
  for (const Sample& s : out.results.emitted) {
    for (const char* field : {"shots.json", "mp4", "json"})
      if (const auto bytes = s.text(field)) all += *bytes;
    if (const auto* frames = s.tensor("frames")) {
      const int64_t* n = frames->shape;
      all.append(static_cast<const char*>(frames->data), static_cast<size_t>(n[0] * n[1] * n[2] * n[3]));
    }
  }
  return all;
}

TEST(OptionDecoder, AutoGivesTheSameBytesAndOneLineInTheLog) {
  std::vector<std::string> lines;
  core::divert_log([&](int32_t, std::string_view line) { lines.emplace_back(line); });
  for (const char* id : kStages) {
    const std::string cpu = results(id, "cpu");
    EXPECT_GT(cpu.size(), 100u) << id;
    EXPECT_EQ(results(id, "auto"), cpu) << id;
  }
  core::divert_log(nullptr);
  ASSERT_EQ(lines.size(), why_no_nvdec().empty() ? 0u : 1u);
  if (lines.empty()) return;
  EXPECT_THAT(lines[0], HasSubstr("NVDEC needs an NVIDIA card"));
  EXPECT_THAT(lines[0], HasSubstr("the CPU decodes it"));
}

TEST(OptionDecoder, NvdecWithoutACardEndsTheRunWithARemedy) {
  if (why_no_nvdec().empty()) GTEST_SKIP() << "this machine has NVDEC";
  kinora_run run{};
  run.struct_size = sizeof run;
  run.n_threads = 2;
  run.cancelled = [](void*) -> int32_t { return KINORA_OK; };
  for (const char* id : kStages) {
    const int32_t status = with_stage(
        id, "nvdec", [&](void* self, const kinora_stage& stage) { return stage.start(self, &run); });
    EXPECT_EQ(status, KINORA_ERROR_UNSUPPORTED) << id;
    EXPECT_THAT(std::string(view(host()->last_error(host()))), HasSubstr("set decoder = \"auto\"")) << id;
    const Sample video = video_at("bbb_A.mp4");
    core::StageResults results;
    const kinora_emit sink = results.sink();
    const int32_t processed = with_stage(id, "nvdec", [&](void* self, const kinora_stage& stage) {
      return stage.process(self, video.get(), &sink, &run);
    });
    EXPECT_EQ(processed, KINORA_ERROR_DATA) << id;
    EXPECT_THAT(std::string(view(host()->last_error(host()))),
                HasSubstr("bbb_A.mp4: NVDEC needs an NVIDIA card"))
        << id;
  }
}

TEST(OptionDecoder, AStageAsksForADecoderThatItUses) {
  const auto asked = [](const char* id, const char* decoder) {
    return with_stage(id, decoder, [](void* self, const kinora_stage& stage) {
      kinora_resources out{};
      out.struct_size = sizeof out;
      check(stage.resources(self, &out));
      return out.nvdec;
    });
  };
  for (const char* id : kStages) {
    EXPECT_EQ(asked(id, "cpu"), 0u) << id;
    EXPECT_EQ(asked(id, "nvdec"), 1u) << id;
    EXPECT_EQ(asked(id, "auto"), why_no_nvdec().empty() ? 1u : 0u) << id;
  }
}

}  // namespace
}  // namespace kinora::video

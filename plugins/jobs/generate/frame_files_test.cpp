// The frames that a program takes next to a video's MP4: their bytes, and how far the model is ahead of it.
#include "plugins/jobs/generate/frame_files.hpp"

#include <atomic>
#include <cstdlib>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::frame_files {
namespace {

using inference::in_chunks;
using inference::Session;
using testing::HasSubstr;

class FrameFilesTest : public testing::Test {
 protected:
  FrameFilesTest()
      : small_(inference::kDeepDit, 2, inference::kStreaming),
        parallel_(test::runtime(), inference::PlainPipeline::plan(*small_.run)),
        pipeline_(test::runtime(), small_.spec(in_chunks(1), kChunks), parallel_) {
    std::string name = (fs::temp_directory_path() / "kinora-frames-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~FrameFilesTest() override { fs::remove_all(folder_); }

  static Request request() { return {.seed = 2, .prompt = "red sea"}; }
  // The bytes of each chunk of the video, as a session gives them.
  std::vector<std::string> expected() {
    Session session(pipeline_, request());
    std::vector<std::string> out;
    while (const auto frames = session.next_chunk()) {
      const at::Tensor all = frames->contiguous();
      out.emplace_back(reinterpret_cast<const char*>(all.data_ptr<uint8_t>()), all.numel());
    }
    return out;
  }
  static std::string bytes_of(const fs::path& file) {
    const auto bytes = read_bytes(file);
    return {bytes.begin(), bytes.end()};
  }
  void take(int64_t number, const std::string& id = "a") { mail_.push({{"steer", id}, {"taken", number}}); }
  FrameFiles files(const std::string& form, const Session& session, FrameFiles::Tell tell) {
    return {{"a", form, folder_}, session, mail_, std::move(tell)};
  }

  static constexpr int64_t kChunks = 5;
  inference::Small small_;
  Parallelism parallel_;
  inference::Pipeline pipeline_;
  fs::path folder_;
  LiveMail mail_;
};

TEST_F(FrameFilesTest, HaveTheFramesOfTheSession) {
  const auto want = expected();
  ASSERT_EQ(want.size(), 5U);
  std::vector<json> told;
  Session session(pipeline_, request());
  FrameFiles chunks = files("chunks", session, [&](const json& message) {
    told.push_back(message);
    take(message.at("number"));
  });
  session.make_rest([&](const at::Tensor& frames) { chunks.add(frames); });
  ASSERT_EQ(told.size(), want.size());
  int64_t first = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(bytes_of(told[i].at("file").get<std::string>()), want[i]) << i;
    EXPECT_EQ(told[i].at("first_frame"), first);
    EXPECT_EQ(told[i].at("video"), "a");
    const auto shape = told[i].at("frames").get<std::vector<int64_t>>();
    ASSERT_EQ(shape.size(), 4U);
    EXPECT_EQ(shape[0] * shape[1] * shape[2] * shape[3], static_cast<int64_t>(want[i].size()));
    first += shape[0];
  }
  Session again(pipeline_, request());
  FrameFiles whole = files("whole", again, [](const json&) { ADD_FAILURE() << "a whole video tells nothing"; });
  again.make_rest([&](const at::Tensor& frames) { whole.add(frames); });
  std::string all;
  for (const auto& chunk : want) all += chunk;
  EXPECT_EQ(bytes_of(folder_ / "frames"), all);
}

TEST_F(FrameFilesTest, AreTwoAheadOfWhoTakesThemUntilTheSessionEnds) {
  std::atomic<int64_t> told{0};
  Session session(pipeline_, request());
  FrameFiles chunks = files("chunks", session, [&](const json&) { ++told; });
  int32_t code = KINORA_OK;
  std::jthread making([&] {
    try {
      session.make_rest([&](const at::Tensor& frames) { chunks.add(frames); });
    } catch (const Error& e) {
      code = e.code();
    }
  });
  const auto stays = [&](int64_t count) {
    for (int tries = 0; tries < 500 && told < count; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    EXPECT_EQ(told, count);
  };
  stays(2);
  take(2, "another video");
  stays(2);
  take(1);
  stays(3);
  session.cancel();
  making.join();
  EXPECT_EQ(told, 3);
  EXPECT_EQ(code, KINORA_ERROR_CANCELLED);
}

TEST_F(FrameFilesTest, EndTheVideoOfWhoTakesNothing) {
  Session session(pipeline_, request());
  int64_t told = 0;
  FrameFiles chunks({"a", "chunks", folder_}, session, mail_, [&](const json&) { ++told; },
                    std::chrono::milliseconds(300));
  const auto make = [&] { session.make_rest([&](const at::Tensor& frames) { chunks.add(frames); }); };
  EXPECT_THAT(test::refusal(make), HasSubstr("none of its chunks was taken for 0.3 s"));
  EXPECT_EQ(told, FrameFiles::kAhead);
}

TEST_F(FrameFilesTest, RefuseAnotherForm) {
  Session session(pipeline_, request());
  EXPECT_THAT(test::refusal([&] { files("film", session, nullptr); }), HasSubstr("\"whole\" or \"chunks\""));
}

}  // namespace
}  // namespace kinora::core::frame_files

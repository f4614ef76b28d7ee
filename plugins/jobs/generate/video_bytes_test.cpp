// The memory of a video: what it had in the cache counts as much for the next one, the text's share at any size.
#include "plugins/jobs/generate/video_bytes.hpp"

#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout_testing.hpp"

namespace kinora::core::video_bytes {
namespace {

nlohmann::json sized(int64_t width) { return {{"num_frames", 5}, {"height", 16}, {"width", width}}; }

TEST(VideoBytes, CountTheTextOnceAndTokensByTheSizeOfTheVideo) {
  inference::Small small(inference::kDeepDit, 2, inference::kStreaming);
  Parallelism parallel(test::runtime(), inference::PlainPipeline::plan(*small.run));
  inference::Pipeline pipeline(test::runtime(), small.spec(inference::in_chunks(1), 5), parallel);
  VideoBytes bytes(pipeline);
  const int64_t of_small = bytes.of(sized(32)), of_wide = bytes.of(sized(64));
  inference::Session::Made made;
  made.cache_bytes = 64'000 + 777;
  made.text_bytes = 777;
  bytes.learn(sized(32), made);
  EXPECT_EQ(bytes.of(sized(32)) - of_small, 64'777);
  EXPECT_EQ(bytes.of(sized(64)) - of_wide, 128'777) << "twice as many tokens, and the same text";
  made.cache_bytes = 64'000 + 500;
  made.text_bytes = 500;
  bytes.learn(sized(32), made);
  EXPECT_EQ(bytes.of(sized(32)) - of_small, 64'777) << "the next text may be as long as the longest so far";
}

}  // namespace
}  // namespace kinora::core::video_bytes

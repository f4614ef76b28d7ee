// A video that a killed process began: its finished chunks are read, and only the others are made.
#include "plugins/jobs/generate/kept_chunks.hpp"

#include <cstdlib>
#include <fstream>

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout_testing.hpp"

namespace kinora::core::kept_chunks {
namespace {

using inference::in_chunks;
using inference::Session;

struct Result {
  std::vector<at::Tensor> frames;
  at::Tensor latent;
  int64_t nfe = 0;
};

// Makes the next `most` chunks.
Result made(Session& session, int64_t most = 100) {
  Result out;
  for (int64_t chunk = 0; chunk < most; ++chunk) {
    const auto frames = session.next_chunk();
    if (!frames) break;
    out.frames.push_back(*frames);
  }
  out.latent = session.made().latent;
  out.nfe = session.made().nfe;
  return out;
}

void expect_equal(const Result& got, const Result& want, const std::string& what) {
  ASSERT_EQ(got.frames.size(), want.frames.size()) << what;
  for (size_t i = 0; i < got.frames.size(); ++i)
    EXPECT_TRUE(at::equal(got.frames[i], want.frames[i])) << what << ": chunk " << i;
  EXPECT_TRUE(at::equal(got.latent, want.latent)) << what;
}

struct Case {
  std::string name;
  FrameOptions rule;
  std::vector<std::string> shots;
  json cache = json::object();
  int64_t given = 0;  // pixel frames of a video that it begins with
};

std::vector<Case> cases() {
  return {
      {"a window and a sink", in_chunks(1, 2, 1), {}},
      {"no cache", in_chunks(2, 2), {}, nullptr},
      {"given frames", in_chunks(2), {}, json::object(), 9},
      {"shots",
       in_chunks(1, 3, 1),
       {R"({"prompt": "red sea", "chunks": 1})", R"({"prompt": "blue", "chunks": 3, "switch": "recache"})",
        R"({"prompt": "sea", "chunks": 2, "cut": false, "switch": "blend"})"}},
      {"at once", FrameOptions(), {}, nullptr}};
}

Request request_of(const Case& c) {
  Request out;
  out.seed = 2;
  out.prompt = "red sea";
  out.shots = c.shots;
  if (c.given == 0) return out;
  out.video = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  out.condition_frames = c.given;
  return out;
}

class KeptChunksTest : public testing::Test {
 protected:
  KeptChunksTest() {
    std::string name = (fs::temp_directory_path() / "kinora-chunks-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~KeptChunksTest() override { fs::remove_all(folder_); }
  Session::Watch watch(const KeptChunks& chunks) {
    Session::Watch out;
    out.finished = [&chunks](int64_t chunk, const at::Tensor& latent) { chunks.keep(chunk, latent); };
    out.known = [this, &chunks](int64_t chunk) {
      const at::Tensor known = chunks.known(chunk);
      known_ += known.defined();
      return known;
    };
    return out;
  }

  fs::path folder_;
  int64_t known_ = 0;
};

TEST_F(KeptChunksTest, ContinueTheVideoOfAKilledProcess) {
  const at::NoGradGuard off;
  inference::Small small(inference::kDeepDit, 2, inference::kStreaming);
  small.shots = {Frames::Pin::own, 8};
  for (const auto& c : cases()) {
    Parallelism parallel(test::runtime(), inference::PlainPipeline::plan(*small.run));
    inference::Pipeline pipeline(test::runtime(), small.spec(c.rule, 6, c.cache), parallel);
    const KeptChunks chunks(folder_ / c.name, c.name);
    Session whole(pipeline, request_of(c));
    const Result want = made(whole);
    const auto most = static_cast<int64_t>(want.frames.size());
    for (int64_t killed = 1; killed <= most; killed += 2) {
      Session first(pipeline, request_of(c), watch(chunks));
      made(first, killed);
      known_ = 0;
      Session again(pipeline, request_of(c), watch(chunks));
      const Result got = made(again);
      expect_equal(got, want, c.name);
      EXPECT_EQ(known_, killed) << c.name;
      EXPECT_EQ(got.nfe * most, want.nfe * (most - killed)) << c.name;
      chunks.remove();
    }
  }
}

TEST_F(KeptChunksTest, AreOfTheirVideoAndWhole) {
  const at::Tensor latent = at::arange(8, at::kFloat).view({1, 2, 1, 2, 2});
  const KeptChunks chunks(folder_, "this");
  chunks.keep(3, latent);
  EXPECT_TRUE(at::equal(chunks.known(3), latent));
  EXPECT_FALSE(chunks.known(2).defined());
  EXPECT_FALSE(KeptChunks(folder_, "other settings").known(3).defined());
  fs::resize_file(folder_ / "000003.safetensors", fs::file_size(folder_ / "000003.safetensors") - 1);
  EXPECT_FALSE(chunks.known(3).defined()) << "it is made again";
  std::ofstream(folder_ / "a file") << "x";
  const KeptChunks nowhere(folder_ / "a file", "this");
  nowhere.keep(0, latent);
  EXPECT_FALSE(nowhere.known(0).defined()) << "a disk that takes nothing fails no video";
}

}  // namespace
}  // namespace kinora::core::kept_chunks

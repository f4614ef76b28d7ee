// The files of a generated video: as they come in chunks, and as a whole.
#include "plugins/jobs/media/video_files.hpp"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/resident.hpp"

namespace kinora::core {
namespace {

// Frames [first, first + count) of a video in which a gradient moves, uint8 [count, side, side, 3].
at::Tensor moving(int64_t first, int64_t count, int64_t side) {
  const at::Tensor at = at::arange(side, at::kShort);
  const at::Tensor times = at::arange(first, first + count, at::kShort).view({-1, 1, 1, 1});
  const at::Tensor sum = times * 2 + at.view({1, -1, 1, 1}) + at.view({1, 1, -1, 1}) +
                         at::arange(3, at::kShort).view({1, 1, 1, -1}) * 40;
  return sum.remainder(256).to(at::kByte);
}

struct Folder {
  ScratchRun run;
  JobContext context = run.context("film");
  fs::path videos = run.folder() / "made";
  Folder() { fs::create_directories(videos); }
  VideoFiles::Form form(const std::string& name, std::vector<std::string> formats) const {
    return {.base = videos / name, .formats = std::move(formats), .fps = 16};
  }
  std::vector<char> bytes(const std::string& name) const { return read_bytes(videos / name); }
  std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(videos)) out.insert(entry.path().filename().string());
    return out;
  }
};

// The types of a file's outermost boxes (ISO/IEC 14496-12, 4.2).
std::vector<std::string> box_types(const std::vector<char>& bytes) {
  std::vector<std::string> out;
  for (size_t at = 0; at + 8 <= bytes.size();) {
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<uint8_t>(bytes[at + i]);
    out.emplace_back(bytes.data() + at + 4, 4);
    if (size < 8) break;
    at += size;
  }
  return out;
}

int64_t counted_frames(const std::vector<char>& bytes) {
  const OneStage probe(test::runtime(), "video.probe", json{{"count", true}});
  Sample sample("x");
  sample.set("mp4", std::string(bytes.begin(), bytes.end()));
  return json::parse(probe(sample).text("json").value_or("{}")).value("frames", int64_t{0});
}

bool has_text(const std::vector<char>& bytes, const std::string& text) {
  return std::search(bytes.begin(), bytes.end(), text.begin(), text.end()) != bytes.end();
}

void add_in_chunks(VideoFiles& files, const std::vector<int64_t>& counts, int64_t side) {
  int64_t first = 0;
  for (const int64_t count : counts) {
    files.add(moving(first, count, side));
    first += count;
  }
}

TEST(VideoFiles, InChunksAreThoseOfTheWholeVideo) {
  const at::NoGradGuard off;
  Folder folder;
  const std::vector<std::string> formats = {"mp4", "webp", "png"};
  VideoFiles whole(folder.context, folder.form("whole", formats)),
      grown(folder.context, folder.form("grown", formats));
  whole.add(moving(0, 21, 32));
  whole.finish("all of it");
  grown.grow(21, "begun");
  add_in_chunks(grown, {1, 8, 8, 4}, 32);
  grown.finish("all of it");
  for (const VideoFiles* files : {&whole, &grown}) {
    EXPECT_EQ(files->frames(), 21);
    EXPECT_EQ(files->height(), 32);
  }
  EXPECT_THAT(folder.names(), testing::UnorderedElementsAre("whole", "whole.mp4", "whole.webp", "whole.png",
                                                            "grown", "grown.mp4", "grown.webp", "grown.png"));
  EXPECT_EQ(folder.bytes("grown.png"), folder.bytes("whole.png")) << "six frames, of equal numbers";
  EXPECT_EQ(folder.bytes("grown.webp"), folder.bytes("whole.webp"));
  for (int i = 0; i < 21; ++i) {
    const std::string name = fmt::format("/{:05}.png", i);
    const auto a = folder.bytes("whole" + name), b = folder.bytes("grown" + name);
    EXPECT_TRUE(at::equal(decoded(a, json::object()), decoded(b, json::object()))) << i;
    EXPECT_TRUE(has_text(a, "all of it") && has_text(b, "begun")) << i;
  }
}

TEST(VideoFiles, InChunksGiveAnMp4WithItsIndexInFrontAndItsComment) {
  const at::NoGradGuard off;
  Folder folder;
  VideoFiles files(folder.context, folder.form("000", {"mp4"}));
  files.grow(40, "begun");
  add_in_chunks(files, {1, 12, 12, 12, 3}, 48);
  const std::string comment = json{{"prompt", "red sea"}, {"nfe", 40}}.dump();
  files.finish(comment);
  const auto bytes = folder.bytes("000.mp4");
  const auto boxes = box_types(bytes);
  const auto moov = std::find(boxes.begin(), boxes.end(), "moov");
  EXPECT_LT(moov, std::find(boxes.begin(), boxes.end(), "mdat"));
  EXPECT_EQ(std::count(boxes.begin(), boxes.end(), "moof"), 0);
  EXPECT_TRUE(has_text(bytes, comment));
  EXPECT_FALSE(has_text(bytes, "begun"));
  EXPECT_EQ(counted_frames(bytes), 40);
  const at::Tensor shown = decoded(bytes, json::object());
  EXPECT_EQ(shown.sizes(), (std::vector<int64_t>{40, 48, 48, 3}));
  const double apart = (shown.to(at::kFloat) - moving(0, 40, 48).to(at::kFloat)).abs().mean().item<double>();
  EXPECT_LT(apart, 12) << "levels, at crf 18 with half as many colours";
}

// A kill leaves what is there at any moment before the end.
TEST(VideoFiles, HaveNoNameUntilTheyAreComplete) {
  const at::NoGradGuard off;
  Folder folder;
  {
    VideoFiles files(folder.context, folder.form("000", {"mp4", "webp", "png"}));
    files.grow(18, "begun");
    add_in_chunks(files, {1, 8, 8}, 32);
    for (const std::string& name : folder.names()) EXPECT_TRUE(name.starts_with(".000")) << name;
  }
  EXPECT_THAT(folder.names(), testing::IsEmpty()) << "a video that fails";
}

TEST(VideoFiles, InChunksThrowWhatTheirThreadMeets) {
  const at::NoGradGuard off;
  Folder folder;
  VideoFiles files(folder.context, folder.form("000", {"mp4"}));
  files.grow(4, "begun");
  files.add(moving(0, 2, 32));
  fs::create_directories(folder.videos / "000.mp4");
  EXPECT_THROW(files.finish("ended"), Error);
}

TEST(VideoFiles, InChunksAreNotKeptInMemory) {
  if (!test::kCountsMemory) GTEST_SKIP() << "sanitizers keep freed memory";
  const at::NoGradGuard off;
  constexpr int64_t kEach = 16, kChunks = 80, kSide = 192, kMebi = int64_t{1} << 20;
  Folder folder;
  VideoFiles files(folder.context, folder.form("000", {"mp4"}));
  files.grow(kEach * kChunks, "begun");
  int64_t before = 0, most = 0;
  for (int64_t i = 0; i < kChunks; ++i) {
    files.add(moving(i * kEach, kEach, kSide));
    const int64_t now = test::resident();
    ASSERT_GT(now, 0);
    if (i == 9) before = now;
    most = std::max<int64_t>(most, now);
  }
  files.finish("ended");
  most = std::max<int64_t>(most, test::resident());
  EXPECT_LT(most - before, 32 * kMebi)
      << "of frames of " << kEach * kChunks * kSide * kSide * 3 / kMebi << " MiB";
  EXPECT_EQ(counted_frames(folder.bytes("000.mp4")), kEach * kChunks);
}

}  // namespace
}  // namespace kinora::core

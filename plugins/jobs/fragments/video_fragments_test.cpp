#include "plugins/jobs/fragments/video_fragments.hpp"

#include <fstream>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/kinds.hpp"
#include "kinora/abi/plugin.h"
#include "media/decoder.hpp"
#include "tests/support/refusal.hpp"

kinora_component kinora_component_FragmentsByFFmpeg();

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Kind = VideoFragments::Kind;

const VideoFragments& fragments() {
  const kinora_component component = kinora_component_FragmentsByFFmpeg();
  return *static_cast<const VideoFragments*>(static_cast<const kinora_service*>(component.api)->object());
}

class VideoFragmentsService : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-fragments-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }
  fs::path folder;
};

std::vector<uint8_t> grey_frames(const VideoFragments::Form& form, int64_t count, uint8_t level) {
  return std::vector<uint8_t>(static_cast<size_t>(form.height * form.width * 3 * count), level);
}

TEST_F(VideoFragmentsService, GrowsAFileAndGivesItAnIndex) {
  const VideoFragments::Form form{.height = 48, .width = 64, .fps = 16, .comment = "begun"};
  const fs::path grown = folder / "grown.mp4", whole = folder / "whole.mp4";
  std::ofstream out(grown, std::ios::binary);
  std::vector<Kind> kinds;
  const auto stream = fragments().open(form, [&](std::span<const uint8_t> bytes, Kind kind) {
    kinds.push_back(kind);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  EXPECT_THAT(stream->mime(), HasSubstr("codecs=\"avc1.42c0"));
  stream->add(grey_frames(form, 5, 40).data(), 5);
  stream->add(grey_frames(form, 4, 200).data(), 4);
  stream->finish();
  out.close();
  EXPECT_EQ(kinds, (std::vector{Kind::init, Kind::fragment, Kind::fragment}));
  fragments().remux(grown, whole, "ended");
  for (const auto& [file, comment] : {std::pair(grown, "begun"), {whole, "ended"}}) {
    video::FileSource source(file);
    EXPECT_EQ(video::count_frames(source, file.string()).frames, 9) << file;
    EXPECT_THAT(video::probe(source, file.string()).metadata,
                testing::Contains(testing::Pair("comment", comment)));
  }
  fragments().remux(grown, grown, "in place");
  video::FileSource source(grown);
  EXPECT_EQ(video::count_frames(source, "grown.mp4").frames, 9);
}

TEST_F(VideoFragmentsService, ErrorsAreKinoras) {
  const auto none = [](std::span<const uint8_t>, Kind) {};
  EXPECT_THAT(test::refusal([&] { fragments().open({.height = 0, .width = 64}, none); }),
              HasSubstr("64 x 0"));
  EXPECT_THAT(test::refusal([&] { fragments().open({.height = 48, .width = 64}, none)->finish(); }),
              HasSubstr("no frames"));
  EXPECT_THAT(test::refusal([&] { fragments().remux(folder / "none.mp4", folder / "to.mp4", ""); }),
              HasSubstr("none.mp4"));
  EXPECT_FALSE(fs::exists(folder / "to.mp4"));
}

TEST_F(VideoFragmentsService, ErrorsOfTheSinkPassThrough) {
  const VideoFragments::Form form{.height = 48, .width = 64};
  const auto stream = fragments().open(
      form, [](std::span<const uint8_t>, Kind) { throw Error(KINORA_ERROR_IO, "the reader is gone"); });
  EXPECT_EQ(test::refusal([&] { stream->add(grey_frames(form, 2, 9).data(), 2); }), "the reader is gone");
}

}  // namespace
}  // namespace kinora::core

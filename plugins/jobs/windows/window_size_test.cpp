#include "plugins/jobs/windows/window_size.hpp"

#include <gmock/gmock.h>

#include "plugins/jobs/windows/encode_options.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

TEST(WindowSize, IsReadFromText) {
  EXPECT_EQ(window_size("9x48x64"), (WindowSize{9, 48, 64}));
  for (const char* wrong : {"", "9", "9x48", "9x48x", "x48x64", "9x48x64x1", "9x48x-64", "0x48x64",
                            "9 x48x64", "9x48x1e9", "9x48x99999999999999999999"})
    EXPECT_THAT(test::refusal([&] { window_size(wrong); }), HasSubstr("as \"9x48x64\"")) << wrong;
}

TEST(WindowSize, OfTheOptionsComesFirstAndOnce) {
  EncodeOptions o;
  o.frames = 9, o.height = 48, o.width = 64, o.sizes = {"1x64x64", "9x48x64", "1x64x64"};
  const auto sizes = window_sizes(o);
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0], (WindowSize{9, 48, 64}));
  EXPECT_EQ(sizes[1], (WindowSize{1, 64, 64}));
}

TEST(WindowSize, FitsTheClip) {
  const std::vector<WindowSize> sizes{{9, 48, 64}, {9, 96, 128}, {17, 48, 64},
                                      {9, 64, 48}, {1, 64, 64},  {1, 256, 256}};
  const auto chosen = [&](int64_t frames, int64_t height, int64_t width) {
    const auto i = choose_size(sizes, {frames, height, width});
    return i ? sizes[*i] : WindowSize{0, 0, 0};
  };
  EXPECT_EQ(chosen(100, 480, 640), (WindowSize{9, 96, 128})) << "the most numbers of those with its shape";
  EXPECT_EQ(chosen(10, 480, 640), (WindowSize{9, 96, 128}));
  EXPECT_EQ(chosen(100, 60, 80), (WindowSize{17, 48, 64})) << "96 x 128 would be enlarged";
  EXPECT_EQ(chosen(100, 30, 40), (WindowSize{9, 48, 64})) << "none is filled: the smallest";
  EXPECT_EQ(chosen(100, 640, 480), (WindowSize{9, 64, 48}));
  EXPECT_EQ(chosen(100, 1080, 1920), (WindowSize{9, 96, 128})) << "the nearest shape";
  EXPECT_EQ(chosen(1, 1000, 1000), (WindowSize{1, 256, 256})) << "a picture has one frame";
  EXPECT_EQ(chosen(1, 480, 640), (WindowSize{1, 256, 256})) << "whatever its shape";
  EXPECT_EQ(chosen(1, 100, 100), (WindowSize{1, 64, 64}));
  EXPECT_FALSE(choose_size({{9, 48, 64}}, {8, 48, 64}));
}

}  // namespace
}  // namespace kinora::core

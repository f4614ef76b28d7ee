#include "plugins/jobs/data/webp.hpp"

#include <gtest/gtest.h>

#include "plugins/jobs/data/webp_testing.hpp"

namespace kinora::core {
namespace {

using test::bytes_of_hex;
using test::tiny_preview;

TEST(WebpPreview, HasItsFirstFrameAsAFileOfItsOwn) {
  const auto preview = webp_preview(tiny_preview());
  ASSERT_TRUE(preview);
  EXPECT_EQ(std::pair(preview->width, preview->height), std::pair(16, 8));
  // RIFF with its length, the header of a still picture of that size, and the data of the first frame.
  EXPECT_EQ(preview->still, bytes_of_hex("52494646"
                                         "46000000"
                                         "57454250"
                                         "56503858"
                                         "0a000000"
                                         "00000000"
                                         "0f0000070000") +
                                tiny_preview().substr(44 + 8 + 16, 48));
  EXPECT_EQ(webp_preview(preview->still)->still, preview->still) << "it does not move";
}

// A clip of one frame; made by FFmpeg 5.1 from 18 x 10 pixels, lossy and lossless.
TEST(WebpPreview, OfOneFrameIsItsStill) {
  for (const std::string& file :
       {bytes_of_hex("524946464800000057454250565038203c0000001003009d012a12000a003e91389747a5a32221300800b01"
                     "209401765d000"
                     "10360000feeed3dffe0375f16d32fff7381ff7381ff7381fc73359800000"),
        bytes_of_hex("524946461c000000574542505650384c0f0000002f114002000710fd8ffe0722a2ff0100")}) {
    const auto preview = webp_preview(file);
    ASSERT_TRUE(preview);
    EXPECT_EQ(std::pair(preview->width, preview->height), std::pair(18, 10));
    EXPECT_EQ(preview->still, file);
  }
}

TEST(WebpPreview, OfBrokenBytesIsNothing) {
  const std::string whole = tiny_preview();
  for (size_t i = 0; i < whole.size(); ++i) {
    (void)webp_preview(whole.substr(0, i));
    for (const char c : {'\0', '\x7f', '\xff'}) {
      std::string other = whole;
      other[i] = c;
      (void)webp_preview(other);
    }
  }
  EXPECT_EQ(webp_preview(""), std::nullopt);
  EXPECT_EQ(webp_preview(whole.substr(0, 60)), std::nullopt);
}

}  // namespace
}  // namespace kinora::core

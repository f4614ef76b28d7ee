#include "media/byte_source.hpp"

#include <array>

#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::error_of;

TEST(ByteSource, ReadsShortOnlyAtTheEnd) {
  const Bytes bytes{1, 2, 3, 4, 5};
  MemorySource memory{std::span(bytes)};
  std::array<uint8_t, 8> buffer{};
  EXPECT_EQ(memory.read_at(1, buffer.data(), 3), 3);
  EXPECT_EQ(buffer[0], 2);
  EXPECT_EQ(memory.read_at(3, buffer.data(), 8), 2);
  EXPECT_EQ(memory.read_at(5, buffer.data(), 8), 0);
  EXPECT_EQ(memory.read_at(-1, buffer.data(), 8), 0);
}

TEST(ByteSource, FileAndMemoryGiveTheSameBytes) {
  const Bytes whole = testing::load("bbb_D.mp4");
  FileSource file(testing::data("bbb_D.mp4"));
  ASSERT_EQ(file.size(), static_cast<int64_t>(whole.size()));
  Bytes middle(1000);
  EXPECT_EQ(file.read_at(5000, middle.data(), 1000), 1000);
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), whole.begin() + 5000));
  EXPECT_EQ(file.read_at(file.size() - 10, middle.data(), 1000), 10);
}

TEST(ByteSource, MissingFileIsNamed) {
  EXPECT_NE(error_of([] { FileSource("no/such/film.mp4"); }).find("no/such/film.mp4"), std::string::npos);
  EXPECT_NE(error_of([] { FileSource("/"); }).find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace kinora::video

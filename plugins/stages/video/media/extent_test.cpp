#include "media/extent.hpp"

#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;

int64_t declared(const Bytes& bytes) {
  MemorySource source{std::span(bytes)};
  return declared_size(source);
}

TEST(Extent, ACutFileDeclaresMoreThanItHas) {
  for (const char* name : {"film.mp4", "bbb_A.mp4", "film_excerpt.webm"}) {
    Bytes film = testing::load(name);
    const auto whole = static_cast<int64_t>(film.size());
    EXPECT_EQ(declared(film), whole) << name;
    film.resize(film.size() / 2);
    EXPECT_GT(declared(film), whole / 2) << name;
  }
}

TEST(Extent, UnknownIsZeroAndPaddingIsIgnored) {
  EXPECT_EQ(declared(testing::load("calais_1906.ogv")), 0);
  EXPECT_EQ(declared({}), 0);
  for (const uint8_t padding : {0x00, 0xFF}) {
    Bytes padded = testing::load("bbb_D.mp4");
    padded.insert(padded.end(), 100, padding);
    EXPECT_LE(declared(padded), static_cast<int64_t>(padded.size()));
  }
}

TEST(Extent, RiffChunksAddUp) {
  Bytes avi = testing::text(std::string("RIFF\x0c\0\0\0AVI LIST\0\0\0\0", 20));
  EXPECT_EQ(declared(avi), 20);
  avi.resize(16);
  EXPECT_EQ(declared(avi), 20);
}

TEST(Extent, LiveMatroskaHasNoLength) {
  const Bytes live{0x1A, 0x45, 0xDF, 0xA3, 0x80, 0x18, 0x53, 0x80, 0x67,
                   0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_EQ(declared(live), 0);
}

}  // namespace
}  // namespace kinora::video

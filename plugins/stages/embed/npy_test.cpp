// kinora/npy.hpp: reads and writes the exact bytes of numpy.save (version 2.4) and refuses other files.
#include "kinora/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The bytes of numpy.save for a float32 array.
std::string numpys(const std::string& shape, std::string_view data, const std::string& descr = "<f4",
                   const std::string& order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + std::string(data);
}

const std::vector<float> kThree{1, -2, 0.5F};
const std::string kBytes(reinterpret_cast<const char*>(kThree.data()), 12);

TEST(Npy, ReadsWhatNumpyWrites) {
  const FloatArray one = read_npy(numpys("(3,)", kBytes), "a");
  EXPECT_THAT(one.shape, ElementsAre(3));
  EXPECT_THAT(one.values, ElementsAre(1, -2, 0.5F));
  const FloatArray rows = read_npy(numpys("(3, 1)", kBytes), "a");
  EXPECT_EQ(rows.rows(), 3);
  EXPECT_EQ(rows.row(1)[0], -2);
}

TEST(Npy, WritesWhatItReadsWithDataAtAMultipleOf64) {
  for (const auto& shape : {std::vector<int64_t>{3}, {1, 3}, {3, 1}}) {
    const std::string file = to_npy(kThree, shape);
    EXPECT_EQ((file.size() - 12) % 64, 0u);
    const FloatArray read = read_npy(file, "a");
    EXPECT_EQ(read.shape, shape);
    EXPECT_EQ(read.values, kThree);
  }
}

TEST(Npy, RefusesWhatIsNotFloat32RowsWithTheFilesName) {
  const auto why = [](const std::string& bytes) {
    try {
      read_npy(bytes, "clip.npy");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
      return std::string(e.what());
    }
    return std::string("it was read");
  };
  EXPECT_THAT(why("no"), HasSubstr("clip.npy: it is not a .npy file"));
  EXPECT_THAT(why(numpys("(3,)", kBytes).substr(0, 60)), HasSubstr("cut off"));
  EXPECT_THAT(why(numpys("(3,)", kBytes, "<f8")), HasSubstr("float32"));
  EXPECT_THAT(why(numpys("(3,)", kBytes, "|O")), HasSubstr("float32"));
  EXPECT_THAT(why(numpys("(3,)", kBytes, "<f4", "True")), HasSubstr("C order"));
  for (const char* shape : {"(4,)", "(2,)", "(1, 4)", "(4294967296, 4294967296)", "(9223372036854775807, 2)"})
    EXPECT_THAT(why(numpys(shape, kBytes)), HasSubstr("shape")) << shape;
  for (const char* shape : {"()", "(1, 1, 3)", "(-3,)", "(a,)", "(3"})
    EXPECT_THAT(why(numpys(shape, kBytes)), HasSubstr("dimensions")) << shape;
}

}  // namespace
}  // namespace kinora

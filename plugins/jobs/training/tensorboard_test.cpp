// Event files read back by a parser that shares no code with the writer; tests/oracle/tensorboard_oracle.py
// reads them with TensorBoard itself.
#include "plugins/jobs/training/tensorboard.hpp"

#include <cstring>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// CRC-32C bit by bit, as RFC 3720 defines it.
uint32_t slow_crc(const std::string& bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = ((crc ^ static_cast<uint32_t>(static_cast<unsigned char>(c) >> bit)) & 1) != 0;
      crc = crc >> 1 ^ (one ? 0x82f63b78u : 0);
    }
  return ~crc;
}
uint32_t mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

// The fields of a message: number -> values; fixed-size values are raw bytes, varints decimal text.
std::multimap<int, std::string> fields(const std::string& m) {
  std::multimap<int, std::string> out;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(m.at(at++));
      x |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return x;
    }
  };
  while (at < m.size()) {
    const uint64_t key = varint();
    const int field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        out.emplace(field, std::to_string(varint()));
        break;
      case 1:
        out.emplace(field, m.substr(at, 8)), at += 8;
        break;
      case 5:
        out.emplace(field, m.substr(at, 4)), at += 4;
        break;
      case 2: {
        const uint64_t n = varint();
        out.emplace(field, m.substr(at, n)), at += n;
        break;
      }
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return out;
    }
  }
  return out;
}
std::string one(const std::string& message, int field) {
  const auto all = fields(message);
  EXPECT_EQ(all.count(field), 1u) << field;
  return all.count(field) ? all.find(field)->second : "";
}

std::vector<std::string> records(const fs::path& folder) {
  std::vector<std::string> out;
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    ++files;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    for (size_t at = 0; at < all.size();) {
      uint64_t size = 0;
      uint32_t crc = 0;
      std::memcpy(&size, &all.at(at), 8);
      std::memcpy(&crc, &all.at(at + 8), 4);
      EXPECT_EQ(crc, mask(slow_crc(all.substr(at, 8))));
      out.push_back(all.substr(at + 12, size));
      std::memcpy(&crc, &all.at(at + 12 + size), 4);
      EXPECT_EQ(crc, mask(slow_crc(out.back())));
      at += 16 + size;
    }
  }
  EXPECT_EQ(files, 1u);
  return out;
}

// "step tag value" of the scalars.
std::vector<std::string> scalars(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& event : records(folder)) {
    if (!fields(event).count(5)) continue;
    const std::string value = one(one(event, 5), 1);
    if (!fields(value).count(2)) continue;
    float x = 0;
    std::memcpy(&x, one(value, 2).data(), 4);
    out.push_back(one(event, 2) + " " + one(value, 1) + " " + std::to_string(x));
  }
  return out;
}

class TensorBoardIn : public testing::Test {
 protected:
  TensorBoardIn() : folder_(fs::temp_directory_path() / ("kinora-board-" + std::to_string(getpid()))) {}
  ~TensorBoardIn() override { fs::remove_all(folder_); }
  fs::path file() const { return fs::directory_iterator(folder_)->path(); }
  fs::path folder_;
};

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // RFC 3720's check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c("abc"), slow_crc("abc"));
}

TEST_F(TensorBoardIn, ReadsBackAsItWasWritten) {
  const std::string png = std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\2\0\0\0\7", 24) + "the rest";
  {
    TensorBoard board(folder_, 0);
    board.scalar(1, "train/loss", 0.5);
    board.scalar(300, "train/loss", -2);
    board.image(300, "pictures", png);
    board.flush();
  }
  EXPECT_EQ(one(records(folder_).at(0), 3), "brain.Event:2");
  EXPECT_EQ(scalars(folder_),
            (std::vector<std::string>{"1 train/loss 0.500000", "300 train/loss -2.000000"}));
  const std::string image = one(one(one(records(folder_).at(3), 5), 1), 4);
  EXPECT_EQ(one(image, 1), "7");    // height
  EXPECT_EQ(one(image, 2), "258");  // width
  EXPECT_EQ(one(image, 4), png);
  EXPECT_TRUE(file().filename().string().starts_with("events.out.tfevents."));
}

TEST_F(TensorBoardIn, GoesOnWithoutDoubledStepsAndWithoutARecordThatWasCutOff) {
  const auto write = [&](int64_t after, int64_t last) {
    TensorBoard board(folder_, after);
    for (int64_t step = after + 1; step <= last; ++step)
      board.scalar(step, "loss", static_cast<double>(step));
  };
  write(0, 300);
  fs::resize_file(file(), fs::file_size(file()) - 3);  // as a killed process leaves it
  write(200, 250);
  const auto all = scalars(folder_);
  ASSERT_EQ(all.size(), 250u);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(all[i].starts_with(std::to_string(i + 1) + " loss")) << all[i];
  write(400, 401);
  EXPECT_EQ(scalars(folder_).size(), 251u);
  fs::resize_file(file(), 5);
  write(0, 2);
  EXPECT_EQ(scalars(folder_).size(), 2u) << "a file without a complete record is started anew";
}

}  // namespace
}  // namespace kinora::core

// A path that is not a regular file is refused without blocking.
#include "core/io/byte_source.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ByteSourceTest : public testing::Test {
 protected:
  ByteSourceTest() : folder_(fs::path(testing::TempDir()) / ("bytes-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    ::alarm(60);  // a plain open() of a pipe would block forever
  }
  ~ByteSourceTest() override {
    ::alarm(0);
    fs::remove_all(folder_);
  }
  static std::string why_not(const fs::path& path) {
    const auto bytes = open_bytes(path.string());
    return bytes ? "" : bytes.failure().message;
  }
  fs::path folder_;
};

TEST_F(ByteSourceTest, WhatIsNoRegularFileIsNamedAsWhatItIs) {
  const fs::path pipe = folder_ / "pipe", socket = folder_ / "s";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(socket.string().size(), sizeof address.sun_path);
  socket.string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(why_not(pipe), HasSubstr("pipe: not a regular file but a pipe; give the path of a file"));
  EXPECT_THAT(why_not(socket), HasSubstr("s: not a regular file but a socket"));
  EXPECT_THAT(why_not(folder_), HasSubstr("not a regular file but a folder"));
  EXPECT_THAT(why_not("/dev/null"), HasSubstr("/dev/null: not a regular file but a device"));
  EXPECT_THAT(why_not(folder_ / "none"), HasSubstr("cannot be opened (No such file"));
  ::close(listener);
}

TEST_F(ByteSourceTest, AFileIsReadWhereverItIsAsked) {
  std::ofstream(folder_ / "file", std::ios::binary) << "0123456789";
  const auto bytes = or_throw(open_bytes((folder_ / "file").string()));
  std::string got(4, '-');
  EXPECT_EQ(bytes->size(), 10u);
  EXPECT_EQ(or_throw(bytes->read(8, got.data(), 4)), 2u);
  EXPECT_EQ(got, "89--");
}

}  // namespace
}  // namespace kinora::core

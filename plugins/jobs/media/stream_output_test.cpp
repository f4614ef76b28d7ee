#include "plugins/jobs/media/stream_output.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "kinora-stream-XXXXXX").string()) {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

Bytes contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Standard output is a pipe while it lives.
class PipedOutput {
 public:
  PipedOutput() {
    std::fflush(stdout);
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    reader_ = ends[0];
    before_ = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
  }
  PipedOutput(const PipedOutput&) = delete;
  PipedOutput& operator=(const PipedOutput&) = delete;
  ~PipedOutput() {
    restore();
    close_reader();
  }
  void restore() {
    if (before_ < 0) return;
    dup2(before_, STDOUT_FILENO);
    close(std::exchange(before_, -1));
  }
  void close_reader() {
    if (reader_ >= 0) close(std::exchange(reader_, -1));
  }
  // All bytes until no one writes any more.
  Bytes read_all() const {
    Bytes out(4096), all;
    for (ssize_t n; (n = read(reader_, out.data(), out.size())) > 0;)
      all.insert(all.end(), out.begin(), out.begin() + n);
    return all;
  }

 private:
  int reader_ = -1, before_ = -1;
};

TEST(StreamOutput, EachWriteIsInTheFileAtOnce) {
  const Folder folder;
  const std::string file = folder.file("grown.mp4");
  std::ofstream(file) << "an older and longer file";
  StreamOutput out(file);
  EXPECT_TRUE(out.is_file());
  out.write(Bytes{1, 2, 3});
  EXPECT_EQ(contents(file), (Bytes{1, 2, 3}));
  out.write(Bytes{4});
  EXPECT_EQ(contents(file), (Bytes{1, 2, 3, 4}));
}

TEST(StreamOutput, AFileThatCannotBeOpenedIsNamed) {
  const Folder folder;
  EXPECT_THAT(test::refusal([&] { StreamOutput(folder.file("none/a.mp4")); }),
              HasSubstr("none/a.mp4: opening failed"));
}

TEST(StreamOutput, GivesAPipeEveryByte) {
  Bytes large(300'000);  // more than a pipe has room for
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<uint8_t>(i * 7 % 251);
  PipedOutput piped;
  Bytes got;
  std::jthread reader([&] { got = piped.read_all(); });
  {
    StreamOutput out("-");
    EXPECT_FALSE(out.is_file());
    piped.restore();  // `out` alone is left to write
    out.write(large);
  }
  reader.join();
  EXPECT_EQ(got, large);
}

TEST(StreamOutput, SaysThatTheReaderIsGone) {
  PipedOutput piped;
  std::string refused;
  {
    StreamOutput out("-");
    out.write(Bytes{1});
    piped.close_reader();
    refused = test::refusal([&] { out.write(Bytes{2}); });
  }
  piped.restore();
  EXPECT_EQ(refused, "the reader of standard output is gone");
}

TEST(StreamOutput, AReaderThatTakesNothingCanBeGivenUp) {
  PipedOutput piped;
  std::atomic<int> asked{0};
  std::string refused;
  {
    StreamOutput out("-", [&] { return ++asked > 2; });
    refused = test::refusal([&] { out.write(Bytes(1'000'000)); });
  }
  piped.restore();
  EXPECT_EQ(refused, "cancelled");
}

TEST(StreamOutput, HasItsPatienceWithAReaderThatTakesNothing) {
  PipedOutput piped;
  std::string refused;
  {
    StreamOutput out("-", nullptr, std::chrono::milliseconds(250));
    refused = test::refusal([&] { out.write(Bytes(1'000'000)); });
  }
  piped.restore();
  EXPECT_EQ(refused, "the reader of standard output has taken nothing for 0.25 s");
}

}  // namespace
}  // namespace kinora::core::inference

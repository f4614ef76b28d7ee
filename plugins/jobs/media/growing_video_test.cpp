#include "plugins/jobs/media/growing_video.hpp"

#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tests/support/run_file.hpp"

namespace kinora::core::growing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A viewer that takes nothing.
class Stalled {
 public:
  Stalled() : folder_((fs::temp_directory_path() / "kinora-growing-XXXXXX").string()) {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    EXPECT_EQ(::mkfifo(pipe().c_str(), 0600), 0);
    reader_ = ::open(pipe().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(reader_, 0);
  }
  Stalled(const Stalled&) = delete;
  Stalled& operator=(const Stalled&) = delete;
  ~Stalled() {
    ::close(reader_);
    fs::remove_all(folder_);
  }
  std::string pipe() const { return folder_ + "/video"; }
  // Until the writer has begun a chunk, which it cannot end.
  void await_writer() const {
    const auto end = Clock::now() + 20s;
    int bytes = 0;
    while (::ioctl(reader_, FIONREAD, &bytes) == 0 && bytes < 16'384)
      if (Clock::now() > end) FAIL() << "the pipe has " << bytes << " bytes";
  }

 private:
  std::string folder_;
  int reader_ = -1;
};

// Noise, so that a chunk is larger than a pipe.
at::Tensor chunk() { return at::randint(256, {40, 128, 128, 3}, at::kByte); }

std::unique_ptr<GrowingVideo> opened(const Stalled& viewer, std::function<bool()> is_ended) {
  return std::make_unique<GrowingVideo>(test::runtime().registry(), viewer.pipe(), 8, 18,
                                        nlohmann::json::object(), 30s, std::move(is_ended));
}

TEST(GrowingVideo, LeavesAStalledViewerWhenItIsDestroyed) {
  const Stalled viewer;
  auto video = opened(viewer, nullptr);
  video->add(chunk());
  viewer.await_writer();
  const auto start = Clock::now();
  video.reset();
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(GrowingVideo, SaysThatTheDiskIsFull) {
  GrowingVideo video(test::runtime().registry(), "/dev/full", 8, 18, nlohmann::json::object(), 30s);
  video.add(chunk());
  video.finish(nlohmann::json::object());
  ASSERT_TRUE(video.problem());
  EXPECT_EQ(video.problem()->code(), KINORA_ERROR_NO_MEMORY) << video.problem()->what();
}

TEST(GrowingVideo, LeavesAStalledViewerWhenTheVideoHasEnded) {
  const Stalled viewer;
  std::atomic<bool> is_ended{false};
  const auto video = opened(viewer, [&] { return is_ended.load(); });
  const auto start = Clock::now();
  const std::jthread ends([&] {
    viewer.await_writer();
    is_ended = true;
  });
  for (int i = 0; i < 4; ++i) video->add(chunk());  // one is encoded, two wait, and one waits for room
  EXPECT_FALSE(video->is_whole());
  EXPECT_LT(Clock::now() - start, 20s);
}

}  // namespace
}  // namespace kinora::core::growing

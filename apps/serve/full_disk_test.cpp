// A disk that is full when a video ends. SQLite cannot write while the process may have no larger files.
#include <csignal>

#include <sys/resource.h>

#include "apps/serve/videos_testing.hpp"

namespace kinora::serve {
namespace full_disk_test {

// No file of this process grows.
class FullDisk {
 public:
  FullDisk() {
    before_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit none{.rlim_cur = 0, .rlim_max = limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_{};
  void (*before_)(int) = nullptr;
};

using FullDiskTest = VideosTest;

TEST_F(FullDiskTest, AVideoThatEndsThenIsCompletedLater) {
  const auto videos = serve();
  const std::string id = create(*videos, "waits"), next = create(*videos, "x");
  ASSERT_TRUE(eventually([&] { return videos->get(id).at("progress") == 50; }));
  std::ofstream(folder_of(id) / "go") << "x";
  {
    const FullDisk full;
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_of(id) / "picture.png"); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const nlohmann::json now = videos->get(id);
    EXPECT_EQ(now.at("status"), "in_progress");
    EXPECT_EQ(now.at("progress"), 50) << "it never falls";
    EXPECT_EQ(status_of(*videos, next), "queued");
  }
  EXPECT_TRUE(becomes(*videos, id, "completed"));
  EXPECT_TRUE(becomes(*videos, next, "completed"));
  EXPECT_EQ(bytes_of(videos->content(id)), "video " + id + " of waits");
}

}  // namespace full_disk_test
}  // namespace kinora::serve

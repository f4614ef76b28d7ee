// A stage that opens media declares it (kinora_resources.isolated), because media cannot be trusted: an
// engine then runs it in a process of its own, so that a failing decoder does not take down the run. Tested
// from outside: a stage opens media if it opens the file that a sample names, or if replacing a video by
// other bytes changes the outcome.
#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/inotify.h>

#include "core/io/io.hpp"
#include "core/runtime/call.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/abi/stage.h"
#include "tests/conformance/stages.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using core::json;
using test::Folder;
using test::kData;

// Detects whether a file has been opened since the last check.
class Watch {
 public:
  explicit Watch(const fs::path& file) : events_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(inotify_add_watch(events_, file.c_str(), IN_OPEN), 0);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { close(events_); }
  bool opened() const {
    char events[4096];
    bool any = false;
    while (read(events_, events, sizeof events) > 0) any = true;
    return any;
  }

 private:
  int events_;
};

// The facts about a video that earlier stages may have found.
Sample sample() {
  Sample out("film");
  out.set("json", R"({"width": 320, "height": 180, "fps": 24.0, "duration_s": 2.0, "rotation": 0})");
  out.set("shots.json", R"({"fps": 24.0, "frames": 48, "cuts": [], "scores": [], "times_us": []})");
  return out;
}

struct Made {
  test::Instance<kinora_stage> stage;
  const Folder& folder;

  int32_t process(const Sample& in) const {
    core::StageResults results;
    const kinora_emit sink = results.sink();
    core::Call call;
    kinora_run run = core::run_of(call);
    const std::string out = folder.path() / "out";
    fs::create_directories(out);
    run.out = str(out);
    const int32_t status = stage->process(stage.self(), in.get(), &sink, &run);
    return status == KINORA_OK && !results.failed.empty() ? KINORA_ERROR_DATA : status;
  }
  bool isolated() const {
    kinora_resources out{sizeof(kinora_resources)};
    EXPECT_EQ(stage->resources(stage.self(), &out), KINORA_OK);
    return out.isolated != 0;
  }
};

bool opens_media(const Made& made, const Folder& folder, const std::string& video) {
  const fs::path file = folder.file("film.mp4", video);
  const Watch watch(file);
  Sample by_name = sample();
  by_name.set("url", file.string());
  made.process(by_name);
  if (watch.opened()) return true;
  Sample whole = sample(), broken = sample();
  whole.set("mp4", video);
  broken.set("mp4", std::string(video.size(), 'x'));
  return (made.process(whole) == KINORA_OK) != (made.process(broken) == KINORA_OK);
}

TEST(Conformance, AStageThatOpensMediaSaysSo) {
  core::Io io(test::plugins());
  core::serve_io(&io);
  const Folder folder;
  std::ifstream in(kData / "bbb_D.mp4", std::ios::binary);
  const std::string video{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(video.empty());
  std::set<std::string> openers;
  for (const auto& id : test::plugins().ids("stage")) {
    const Made made{test::Instance<kinora_stage>(id, test::required(id, folder)), folder};
    if (!opens_media(made, folder, video)) continue;
    openers.insert(id);
    EXPECT_TRUE(made.isolated()) << id << " opens media but does not set isolated = 1 in its resources()";
  }
  core::serve_io(nullptr);
  // The detection above must find the stages that are known to open media.
  for (const char* known :
       {"stage/video.probe", "stage/video.read", "stage/video.remux", "stage/shots.content",
        "stage/clip.transcode", "stage/clip.preview", "stage/filter.motion", "stage/caption.describe"})
    EXPECT_TRUE(openers.contains(known)) << known;
}

}  // namespace
}  // namespace kinora

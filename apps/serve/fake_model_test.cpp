// In place of a model's process for videos_test.cpp: this program itself, started as `serve_test generate ...`, or as
// `serve_test launch ...`. It speaks the protocol of model_process.hpp at descriptor 3, and beats at 4, started as
// `launch` for two ranks. The prompt says what becomes of a video:
//   waits         until a file `go` is in its folder, or it is cancelled
//   deaf          waits for `go` alone
//   fails         with a reason; full: for a full disk
//   dies          the process is killed, each time; dies_once: the first time
//   dies_loading  as dies_once, and the next process ends before it is ready
//   stops         the process reads no more, the first time; rank_stops: rank 1 beats no more
//   refused       by the check; check_dies: the process is killed by the check
// Any other is made at once. The model has 1000 bytes of weights, and a video needs 100 a frame; videos of as many
// frames are alike. In the process's folder `begun` has a line a message, with the videos that it begins, `starts` a
// line a start, `ended` is there once it was let end by itself, and while `fails_loading` is there, it ends before it
// is ready.
// A live session has six chunks of text, each with the prompt of then; one with a branch begins behind the others. But
// with the prompt
//   long          as many as there is time for; big: the same, of 4 MiB each
//   fails, dies   as a video
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/prctl.h>

namespace kinora::serve {
namespace fake_model {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSocket = 3, kPipe = 4;

void say(const json& message) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  const std::string line = message.dump() + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = write(kSocket, line.data() + at, line.size() - at);
    if (n <= 0) std::_Exit(0);
    at += static_cast<size_t>(n);
  }
}

class Fake {
 public:
  Fake(fs::path out, uint16_t ranks) : out_(std::move(out)), beating_(ranks) {}

  int run() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool fails = fs::exists(out_ / "fails_loading");
    std::ofstream(out_ / "starts", std::ios::app) << getpid() << "\n";
    std::ofstream(out_ / "pid") << getpid();
    if (fails) return 3;
    for (const char* name : {"KINORA_SERVE_TOKEN", "KINORA_SERVE_READ_TOKEN"})
      if (std::getenv(name)) std::ofstream(out_ / "knows_a_token") << name;
    std::thread([this] {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(100)))
        for (uint16_t rank = 0; rank < beating_; ++rank)
          if (write(kPipe, &rank, sizeof rank) < 0) return;
    }).detach();
    if (fs::remove(out_ / "dies_loading")) return 3;
    say({{"ready", {{"width", 64}, {"height", 48}, {"num_frames", 8}, {"fps", 8}}},
         {"loras", {"toon", "noir"}},
         {"inputs", {"text", "image"}},
         {"outputs", {"video"}},
         {"makes_live", !fs::exists(out_ / "no_live")},
         {"makes_shots", !fs::exists(out_ / "no_live")},
         {"weights", 1000}});
    std::string have;
    for (;;) {
      pollfd in{kSocket, POLLIN, 0};
      poll(&in, 1, waiting_.empty() ? -1 : 2);
      for (const auto& [id, video] : std::map(waiting_))
        if (fs::exists(video.folder / "go")) finish(id);
      if (in.revents == 0) continue;
      char piece[4096];
      const ssize_t n = read(kSocket, piece, sizeof piece);
      if (n <= 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        std::ofstream(out_ / "ended") << "x";
        return 0;
      }
      have.append(piece, static_cast<size_t>(n));
      for (size_t end; (end = have.find('\n')) != std::string::npos; have.erase(0, end + 1))
        take(json::parse(have.substr(0, end)));
      make_chunks();
    }
  }

 private:
  struct Video {
    fs::path folder;
    std::string prompt;
  };
  void take(const json& message) {
    if (message.contains("check")) {
      check(message.at("check"), message.at("fields"));
    } else if (message.contains("make")) {
      begin(json::array({message}));
    } else if (message.contains("batch")) {
      begin(message.at("batch"));
    } else if (message.contains("live")) {
      begin_live(message);
    } else if (message.contains("steer")) {
      if (message.at("steer") == live_) steer(message);
    } else if (message.contains("forget")) {
      std::ofstream(out_ / "forgotten") << message.at("forget").get<std::string>();
    } else if (message.at("cancel") == live_) {
      end_live("stopped");
    } else if (const auto at = waiting_.find(message.at("cancel").get<std::string>());
               at != waiting_.end() && at->second.prompt != "deaf") {
      waiting_.erase(at);
      say({{"failed", "cancelled"}, {"video", message.at("cancel")}});
    }
  }
  void begin(const json& videos) {
    {
      std::ofstream begun(out_ / "begun", std::ios::app);
      for (const auto& one : videos) begun << one.at("make").get<std::string>() << " ";
      begun << "\n";
    }
    for (const auto& one : videos) {
      const fs::path folder = one.at("folder").get<std::string>();
      std::ofstream(folder / "fields") << one.at("fields");
      make(one.at("make"), {folder, one.at("fields").value("prompt", "")});
    }
  }
  static void check(const json& number, const json& given) {
    const std::string prompt = given.value("prompt", "");
    if (prompt == "check_dies") raise(SIGKILL);
    if (prompt == "refused")
      return say({{"checked", number}, {"error", "steps: expected fewer"}, {"param", "steps"}});
    if (const auto lora = given.find("lora"); lora != given.end() && lora->at("name") != "toon")
      return say({{"checked", number}, {"error", "lora: there are toon, noir"}, {"param", "lora"}});
    if (given.contains("shots") && given.contains("seconds"))
      return say({{"checked", number}, {"error", "shots have their own lengths"}});
    json fields{{"width", 64}, {"height", 48}, {"num_frames", 8}, {"fps", 8}};
    fields.update(given);
    say({{"checked", number},
         {"fields", fields},
         {"bytes", 100 * fields.at("num_frames").get<int>()},
         {"alike", fields.at("num_frames").dump()}});
  }
  void make(const std::string& id, const Video& video) {
    const auto& [folder, prompt] = video;
    if (prompt == "fails") return say({{"failed", "no memory is left"}, {"video", id}});
    if (prompt == "full") return say({{"failed", "the disk is full"}, {"code", "disk_full"}, {"video", id}});
    if (prompt.starts_with("dies") || prompt.ends_with("stops")) {
      const bool is_first = !fs::exists(folder / "begun");
      std::ofstream(folder / "begun") << "x";
      if (prompt == "dies_loading" && is_first) std::ofstream(out_ / "dies_loading") << "x";
      if (prompt == "rank_stops" && is_first) {
        beating_ = 1;
        return;
      }
      if (prompt == "dies" || is_first) raise(prompt == "stops" ? SIGSTOP : SIGKILL);
    }
    waiting_[id] = video;
    std::ofstream(folder / "thumbnail.webp") << "thumbnail";
    std::ofstream(folder / "live.mp4") << "a part";
    say({{"progress", 0.5}, {"video", id}});
    say({{"progress", 0.25}, {"video", id}});
    if (prompt != "waits" && prompt != "deaf") finish(id);
  }
  void finish(const std::string& id) {
    const auto [folder, prompt] = waiting_.at(id);
    std::ofstream(folder / "live.mp4", std::ios::app) << " and the rest";
    std::ofstream(folder / "new") << "video " + id + " of " + prompt;
    fs::rename(folder / "new", folder / "live.mp4");  // with its index in front, as kinora does
    fs::rename(folder / "live.mp4", folder / "video.mp4");
    std::ofstream(folder / "spritesheet.jpg") << "sheet";
    if (prompt == "waits") std::ofstream(folder / "drift.json") << R"({"mean": [0, 0.5, 1]})";
    std::ofstream(folder / "picture.png") << "picture of " + prompt;
    say({{"done", {{"num_frames", 16}}},
         {"times", {{"first_frame", 0.2}, {"chunk", {0.3, 0.4}}, {"step", 0.01}}},
         {"video", id}});
    waiting_.erase(id);
  }

  void begin_live(const json& message) {
    live_ = message.at("live");
    folder_ = message.at("folder").get<std::string>();
    prompt_ = message.at("fields").value("prompt", "");
    if (prompt_ == "dies") raise(SIGKILL);
    if (prompt_ == "fails") {
      say({{"failed", "no memory is left"}, {"live", live_}});
      return live_.clear();
    }
    is_endless_ = prompt_ == "long" || prompt_ == "big";
    sent_ = taken_ = chunk_ = 0;
    if (message.contains("branch")) chunk_ = message.at("branch").at("chunk");
    is_paused_ = false;
    events_.clear();
    say({{"start", {{"mime", "video/mp4"}, {"seed", message.at("fields").at("seed")}}}, {"live", live_}});
    give({{"kind", "init"}}, "the beginning");
  }
  void steer(const json& message) {
    if (message.contains("taken") && message.at("taken") > taken_) taken_ = message.at("taken");
    if (message.contains("pause")) is_paused_ = message.at("pause");
    if (is_paused_) std::ofstream(out_ / "paused") << sent_;
    if (message.contains("rewind")) {
      if (message.at("rewind") >= chunk_)
        say({{"error", {{"code", "invalid_value"}, {"message", "it is not finished"}}}, {"live", live_}});
      else
        chunk_ = message.at("rewind");
    }
    if (!message.contains("prompt")) return;
    std::ofstream(out_ / "steered") << message;
    prompt_ = message.at("prompt");
    events_.push_back(message.at("event_id"));
  }
  // At most two more than were taken.
  void make_chunks() {
    while (!live_.empty() && !is_paused_ && sent_ - taken_ < 2) {
      if (chunk_ == 6 && !is_endless_) return end_live("completed");
      std::string bytes = std::to_string(chunk_) + " " + prompt_;
      if (prompt_ == "big") bytes.resize(4 << 20, 'b');
      give({{"kind", "media"}, {"generation_chunk_index", chunk_++}, {"started_event_ids", events_}}, bytes);
      events_.clear();
    }
  }
  void give(const json& chunk, const std::string& bytes) {
    const fs::path file = folder_ / std::to_string(++sent_);
    std::ofstream(file) << bytes;
    std::ofstream(out_ / "sent") << sent_;
    say({{"chunk", chunk}, {"file", file.string()}, {"number", sent_}, {"live", live_}});
  }
  void end_live(const std::string& reason) {
    say({{"done", {{"reason", reason}, {"chunks", chunk_}}}, {"live", live_}});
    live_.clear();
  }

  const fs::path out_;
  std::atomic<uint16_t> beating_;         // ranks
  std::map<std::string, Video> waiting_;  // those that wait
  std::string live_, prompt_;             // the session that is made
  fs::path folder_;                       // of it
  int64_t sent_ = 0, taken_ = 0, chunk_ = 0;
  bool is_paused_ = false, is_endless_ = false;
  std::vector<std::string> events_;
};

// Before main(): what is started as a model's process is no test.
[[maybe_unused]] const bool is_test = [] {
  std::ifstream in("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string one; std::getline(in, one, '\0');) arguments.push_back(one);
  if (arguments.size() < 2 || (arguments[1] != "generate" && arguments[1] != "launch")) return true;
  const fs::path out = fs::read_symlink("/proc/self/fd/1").parent_path();  // that of process.log
  std::ofstream(out / "arguments") << json(arguments);
  std::_Exit(Fake(out, arguments[1] == "launch" ? 2 : 1).run());
}();

}  // namespace fake_model
}  // namespace kinora::serve

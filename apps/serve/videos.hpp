// The videos of a server: accepted, queued, made by the models' processes, kept for a while.
#pragma once
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/model_process.hpp"
#include "apps/serve/settings.hpp"
#include "apps/serve/video_store.hpp"
#include "apps/web/server.hpp"

namespace kinora::serve {

// A file that a client gave for a video.
struct GivenFile {
  std::string field;  // of the request: image or video
  std::filesystem::path file;
  std::shared_ptr<const web::TemporaryFile> upload{};  // keeps it
};

// [any-thread] Errors are ApiError.
class Videos {
 public:
  // Starts the models' processes; ready() tells when they take work.
  Videos(const Settings& settings, std::filesystem::path program);
  Videos(const Videos&) = delete;
  Videos& operator=(const Videos&) = delete;
  ~Videos();

  // Waits until every model is loaded. Throws Error with the reason of one that cannot be; false: stopped() was true.
  bool ready(const std::function<bool()>& stopped);
  // Ends the models' processes; work that is not done stays in the queue.
  void stop();

  // Objects of OpenAI's Videos API. fields: of the request, checked for their types.
  nlohmann::json create(nlohmann::json fields, const std::vector<GivenFile>& files, const std::string& key);
  nlohmann::json remix(const std::string& id, const std::string& prompt, const std::string& key);
  nlohmann::json get(const std::string& id) const;
  nlohmann::json list(const std::string& after, int64_t limit, bool ascending) const;
  // A video that is being made ends within a step.
  nlohmann::json remove(const std::string& id);
  nlohmann::json models() const;
  nlohmann::json health() const;
  std::string metrics() const;

  // The finished MP4. Throws ApiError 409 `not_ready` while it is made.
  std::filesystem::path content(const std::string& id) const;
  // Who watches a video that is being made, or a finished one.
  struct Viewer {
    std::string id;
    std::ifstream file{};
    uint64_t at = 0;
  };
  // The next bytes, "" at the end, nothing where there are none yet. Throws ApiError where they end before the video
  // does: it has failed, is deleted or begins again, or the server ends.
  std::optional<std::string> next(Viewer& viewer) const;

  // What the process says of a live session, as plugins/jobs/generate/serving.hpp has it. [one thread]
  using TellViewer = std::function<void(const std::string& id, const nlohmann::json& message)>;
  // Begins a live session when its turn comes, and returns its id. queued: called with it and the number of sessions
  // and videos before it, before anything is told; it must not call this object.
  std::string begin_live(nlohmann::json fields, TellViewer tell,
                         const std::function<void(const std::string& id, int64_t ahead)>& queued);
  // A message to its process: prompt and event_id, pause, rewind or taken.
  void steer(const std::string& id, nlohmann::json message);
  // Ends it within a step; its viewer is told.
  void stop_live(const std::string& id);
  // The same for one whose viewer is gone.
  void end_live(const std::string& id);

 private:
  struct Model;
  struct Making {
    double progress = 0;
    bool is_removed = false;
  };
  struct Live {
    std::string model;
    nlohmann::json fields;
    TellViewer tell;                       // null: its viewer is gone
    bool has_begun = false;                // else it waits
    std::vector<nlohmann::json> unsent{};  // to its process, until it begins
  };
  std::filesystem::path folder_of(const std::string& id) const { return settings_.folder / "videos" / id; }
  Model& model(const std::string& name);
  const Model& model(const std::string& name) const;
  nlohmann::json object(const StoredVideo& video) const;
  StoredVideo stored(const std::string& id) const;
  // With the lock, as those that follow but take(), take_live() and end().
  void start(Model& model);
  void take(Model& model, const nlohmann::json& message);
  void finish(Model& model, const nlohmann::json& message);
  void end(Model& model, const std::string& why);
  // Gives the model its next video or live session in turn, if it has none.
  void dispatch(Model& model);
  bool dispatch_live(Model& model);
  void take_live(Model& model, const nlohmann::json& message);
  void forget_live(Model& model);
  void lose_live(Model& model);
  void require_length(const nlohmann::json& fields) const;
  // The fields of the video that the model would make of these. Gives the lock up while it waits.
  nlohmann::json checked(std::unique_lock<std::mutex>& lock, Model& model, const nlohmann::json& fields);
  void start_again(std::unique_lock<std::mutex>& lock);
  void keep_running();
  void clean_up() const;
  void drop_expired();
  void require_room() const;

  const Settings settings_;
  const std::filesystem::path program_;
  const int folder_;  // the descriptor that holds it
  VideoStore store_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Model>> models_;
  std::map<std::string, Making> making_;
  std::map<std::string, Live> lives_;
  std::atomic<bool> is_stopping_{false};
  double mean_seconds_ = 60;  // of making a video, measured
  std::map<std::string, int64_t> counts_;
  std::thread keeper_;  // starts processes again, and drops what has expired
};

}  // namespace kinora::serve

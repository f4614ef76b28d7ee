// The videos of a server: accepted, queued, made by the models' processes, kept for a while.
#pragma once
#include <atomic>
#include <chrono>
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

#include "apps/serve/metrics.hpp"
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

  // Waits until every model is loaded. Throws Error with the reason of one that cannot be, or if they do not fit in the
  // memory; false: stopped() was true.
  bool ready(const std::function<bool()>& stopped);
  // From now on no video or live session begins, and none is accepted.
  void drain();
  // None is being made.
  bool is_idle() const;
  // Ends the models' processes; work that is not done stays in the queue.
  void stop();

  // Objects of OpenAI's Videos API. fields: of the request, checked for their types; "awaited": true of a video that
  // nobody wants once the server has ended. key: of the requests for one video, which must be the same; "": none.
  nlohmann::json create(nlohmann::json fields, const std::vector<GivenFile>& files, const std::string& key);
  nlohmann::json remix(const std::string& id, const std::string& prompt, const std::string& key);
  nlohmann::json get(const std::string& id) const;
  nlohmann::json list(const std::string& after, int64_t limit, bool ascending) const;
  // A video that is being made ends within a step.
  nlohmann::json remove(const std::string& id);
  nlohmann::json models() const;
  // status: "ok", "disk_full", or "model_down" with the models that are not up and why.
  nlohmann::json health() const;
  std::string metrics() const;
  Metrics& measured() { return measured_; }

  // A file of a finished video: video.mp4, spritesheet.jpg, picture.png of a single frame, or thumbnail.webp, which is
  // there from its first chunk on. Throws ApiError 409 `not_ready` while it is made.
  std::filesystem::path content(const std::string& id, const std::string& name = "video.mp4") const;
  // Waits until it is completed. False: is_given_up() was true. Throws ApiError if it fails, is deleted or the server
  // ends.
  bool wait(const std::string& id, const std::function<bool()>& is_given_up);
  // A client that watches a video that is being made, or a finished one.
  struct Viewer {
    std::string id;
    std::ifstream file{};
    uint64_t at = 0;
  };
  // The next bytes, "" at the end, nothing where there are none yet. Throws ApiError where they end before the video
  // does: it has failed, is deleted or begins again, or the server ends.
  std::optional<std::string> next(Viewer& viewer) const;

  // Receives the process's messages of a live session (plugins/jobs/generate/serving.hpp). [one thread] It lives until
  // the session's lease is over.
  using TellViewer = std::function<void(const std::string& id, const nlohmann::json& message)>;
  using TellQueued = std::function<void(const std::string& id, int64_t ahead)>;
  // Begins a live session when its turn comes, and returns its id. queued: called with it and the number of sessions
  // and videos before it, before anything is told; it must not call this object.
  std::string begin_live(nlohmann::json fields, TellViewer tell, const TellQueued& queued);
  // The same for a session that continues another one of the same settings after its first chunks, once that one has
  // ended. It may be at work, or have ended within its lease.
  std::string branch_live(const std::string& of, int64_t chunks, TellViewer tell, const TellQueued& queued);
  // A message to its process: a prompt with its event_id, pause, rewind or taken.
  void steer(const std::string& id, nlohmann::json message);
  // Ends it within a step, and says so to its viewer.
  void stop_live(const std::string& id);
  // Its viewer's connection is lost: no chunk begins, and it ends when its lease is over. One that waits ends at once.
  void leave_live(const std::string& id);
  // Whether its viewer has paused it.
  bool is_paused(const std::string& id) const;
  // Its viewer is back, and has taken so many messages with bytes.
  void resume_live(const std::string& id, int64_t taken);

 private:
  struct Model;
  struct Making {
    double progress = 0;
    int64_t bytes = 0;  // that it needs, as far as its model knows
    bool is_removed = false;
    std::chrono::steady_clock::time_point removed{};
  };
  struct Live {
    std::string model;
    nlohmann::json fields;
    TellViewer tell;
    nlohmann::json branch{};               // {"session", "chunk"}: what it continues; null: nothing
    bool has_begun = false;                // else it waits
    bool is_paused = false;                // by its viewer
    std::vector<nlohmann::json> unsent{};  // to its process, until it begins
    // The end of its lease, of one whose viewer is gone or that has ended.
    std::optional<std::chrono::steady_clock::time_point> until{};
  };
  std::filesystem::path folder_of(const std::string& id) const { return settings_.folder / "videos" / id; }
  // The log of a model's process.
  std::filesystem::path log_of(const std::string& model) const {
    return settings_.folder / "models" / model / "process.log";
  }
  Model& model(const std::string& name);
  const Model& model(const std::string& name) const;
  nlohmann::json object(const StoredVideo& video) const;
  StoredVideo stored(const std::string& id) const;
  // With the lock, as those that follow but take(), take_live() and end().
  void start(Model& model);
  void take(Model& model, const nlohmann::json& message);
  void finish(Model& model, const nlohmann::json& message);
  void end(Model& model, const std::string& why);
  // Gives the model its next videos or live session in turn, if it has none.
  void dispatch(Model& model);
  // Begins the video, with others alike behind it: what the model's process is told. In videos_batch.cpp.
  nlohmann::json begun_together(Model& model, const StoredVideo& first);
  nlohmann::json begun(Model& model, const StoredVideo& video);
  bool dispatch_live(Model& model);
  void require_open() const;
  std::string add_live(Model& model, Live live, const TellQueued& queued);
  void take_live(Model& model, const nlohmann::json& message);
  void forget_live(Model& model, const std::string& id);
  // A function that tells the session's viewer that it is over; call it without the lock. Null: no session is at work.
  std::function<void()> lose_live(Model& model);
  void lose_videos(Model& model);
  // Ends the sessions and forgets the ended ones whose lease is over.
  void end_leases();
  void require_length(const nlohmann::json& fields) const;
  void dispatch_all();
  // Changes the store at the end of a video; where the disk is full, again and again until it takes it.
  void save(const std::string& id, std::function<void()> change);
  void save_again();
  void note_times(const nlohmann::json& times);
  void note_failure(const StoredVideo& video, const std::string& code, const std::string& why,
                    double seconds);
  void fail(const StoredVideo& video, const std::string& code, const std::string& why);
  // Whether settings_.memory has room for the model's next video now (videos_memory.cpp); one that never fits fails.
  bool has_room_for_next(const Model& model);
  // Whether work of these fields has room now; if not, no other model begins any before it.
  bool has_room(const Model& model, const nlohmann::json& fields);
  bool fits_now(const nlohmann::json& fields) const;
  void require_fit(const nlohmann::json& fields) const;
  void require_models_fit() const;
  int64_t bytes_of_models() const;
  // Fails what waits for models that this server does not have.
  void fail_unserved();
  // The fields of the video that the model would make of these. Gives the lock up while it waits.
  nlohmann::json checked(std::unique_lock<std::mutex>& lock, Model& model, const nlohmann::json& fields);
  void plan_restart(Model& model);
  void start_again(std::unique_lock<std::mutex>& lock);
  void end_hung();
  void keep_running();
  // Logs a problem that may last, once a minute.
  void complain(const std::string& problem);
  void clean_up() const;
  void bound_logs() const;
  void drop_expired();
  // A video that is not being made, with its files.
  void forget(const std::string& id);
  void require_room() const;

  const Settings settings_;
  const std::filesystem::path program_;
  const int folder_;  // the descriptor that holds it
  VideoStore store_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Model>> models_;
  std::map<std::string, Making> making_;
  std::map<std::string, Live> lives_, past_lives_;  // past: ended within their lease
  std::atomic<bool> is_stopping_{false};
  bool is_draining_ = false, is_over_ = false;  // over: the models' processes have ended
  int64_t asking_ = 0;                          // calls that wait for a model's answer
  std::map<std::string, std::chrono::steady_clock::time_point> accepted_;  // that wait
  std::map<std::string, std::function<void()>> unsaved_;                   // by video
  std::map<std::string, std::chrono::steady_clock::time_point> told_;      // what complain() has logged
  bool is_full_ = false;                                                   // the disk, at the last look
  std::string first_;  // the model whose next video waits for memory: the others begin none before it
  Metrics measured_;
  double mean_seconds_ = 60;  // of making a video, measured
  std::map<std::string, int64_t> counts_;
  std::thread keeper_;  // starts processes again, which end with it, and drops what has expired
};

}  // namespace kinora::serve

#include "apps/serve/videos.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "apps/serve/api_error.hpp"
#include "apps/serve/disk.hpp"
#include "apps/serve/videos_model.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/suggest.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr int64_t kMostStarts = 2;         // of a video whose process ends under it
constexpr double kLetEnd = 5;              // seconds that a process has to end by itself
constexpr std::chrono::seconds kCheck{1};  // between looks for what has expired
constexpr double kTellAgain = 60;          // seconds after which a problem that lasts is logged again

// The folder with its parts, for this process alone: a descriptor that holds it. It and the models' processes
// write prompts and videos for their user alone, in a folder that others may read too.
int own_folder(const fs::path& folder) {
  umask(077);
  fs::create_directories(folder);
  for (const char* part : {"videos", "models"}) {
    fs::create_directories(folder / part);
    fs::permissions(folder / part, fs::perms::owner_all);
  }
  for (const char* end : {"", "-wal", "-shm"})
    if (const fs::path list = folder / (std::string("videos.sqlite") + end); fs::exists(list))
      fs::permissions(list, fs::perms::owner_read | fs::perms::owner_write);
  const int out = open((folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (out < 0) throw Error(KINORA_ERROR_IO, fmt::format("{}: {}", folder.string(), std::strerror(errno)));
  if (flock(out, LOCK_EX | LOCK_NB) == 0) return out;
  close(out);
  throw Error(
      KINORA_ERROR_FAILED,
      folder.string() + " is the folder of a server that runs; end it, or choose another with --folder");
}

std::string last_line(const fs::path& log) {
  std::ifstream in(log);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out = line;
  return out;
}

}  // namespace

Videos::Videos(const Settings& settings, fs::path program)
    : settings_(settings),
      program_(std::move(program)),
      folder_(own_folder(settings.folder)),
      store_(settings.folder / "videos.sqlite") {
  clean_up();
  fail_unserved();
  const std::scoped_lock lock(mutex_);
  for (const auto& one : settings_.models) {
    auto& model = *(models_[one.name] = std::make_unique<Model>());
    model.settings = one;
    start(model);
  }
  keeper_ = std::thread([this] { keep_running(); });
}

Videos::~Videos() {
  stop();
  close(folder_);
}

bool Videos::ready(const std::function<bool()>& stopped) {
  std::unique_lock lock(mutex_);
  for (const auto& [name, model] : models_)
    while (model->defaults.is_null()) {
      if (stopped()) return false;
      if (!model->was_loaded && !model->broken.empty())
        throw Error(KINORA_ERROR_FAILED,
                    fmt::format("model '{}' cannot be loaded: {}; {} says why, and ends with: {}", name,
                                model->broken, log_of(name).string(), last_line(log_of(name))));
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
  require_models_fit();
  return true;
}

void Videos::stop() {
  std::map<std::string, std::unique_ptr<Model>> all;
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    all.swap(models_);
  }
  changed_.notify_all();
  for (auto& [_, model] : all)
    if (model->process) model->process->stop(kLetEnd);
  for (auto& [_, model] : all) model->process.reset();
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

Videos::Model& Videos::model(const std::string& name) {
  return const_cast<Model&>(std::as_const(*this).model(name));
}

const Videos::Model& Videos::model(const std::string& name) const {
  if (name.empty() && models_.size() == 1) return *models_.begin()->second;
  const auto at = models_.find(name);
  if (at != models_.end()) return *at->second;
  std::vector<std::string> names;
  for (const auto& [one, _] : models_) names.push_back(one);
  if (name.empty())
    throw ApiError(400, fmt::format("model is missing; this server has {}", fmt::join(names, ", ")), "",
                   "model");
  throw ApiError(404,
                 fmt::format("there is no model '{}'{}; this server has {}", name,
                             core::did_you_mean(name, names), fmt::join(names, ", ")),
                 "model_not_found", "model");
}

void Videos::dispatch(Model& model) {
  if (is_stopping_ || is_draining_ || !model.is_up() || !model.at_work.empty()) return;
  if (!model.was_live && dispatch_live(model)) return;
  try {
    while (has_room_for_next(model)) {
      const auto video = store_.begin_next(model.settings.name);
      if (!video) break;
      if (video->starts > kMostStarts) {
        fail(*video, "model_failed", "the model's process ended twice while it made this video");
        continue;
      }
      model.was_live = false;
      model.began = steady_clock::now();
      model.process->send(begun_together(model, *video));
      return;
    }
  } catch (const std::exception& e) {  // a full disk: what is queued stays so
    complain(fmt::format("model '{}': its next video cannot begin: {}", model.settings.name, e.what()));
  }
  dispatch_live(model);
}

void Videos::fail(const StoredVideo& video, const std::string& code, const std::string& why) {
  store_.fail(video.id, now(), now() + settings_.keep, {{"code", code}, {"message", why}});
  note_failure(video, code, why, 0);
}

void Videos::note_failure(const StoredVideo& video, const std::string& code, const std::string& why,
                          double seconds) {
  ++counts_["failed"];
  measured_.count("failures_total", Metrics::label("code", code));
  core::log_error("video fails: id={} model={} code={} seconds={:.3f} reason={}", video.id, video.model, code,
                  seconds, why);
}

void Videos::take(Model& model, const json& message) {
  if (message.contains("live")) return take_live(model, message);
  const std::scoped_lock lock(mutex_);
  if (is_stopping_) return;
  try {
    if (message.contains("ready")) {
      model.defaults = message.at("ready");
      model.loras = message.value("loras", json::array());
      model.inputs = message.value("inputs", json::array());
      model.outputs = message.value("outputs", json::array());
      model.is_live = message.value("makes_live", false);
      model.makes_shots = message.value("makes_shots", false);
      model.was_loaded = true;
      model.failures = 0;
      model.broken.clear();
      model.weights = static_cast<int64_t>(core::number_in(message, "weights"));
      dispatch_all();
    } else if (message.contains("checked")) {
      model.answers[message.at("checked").get<int64_t>()] = message;
    } else if (const std::string id = core::text_in(message, "video"); !model.at_work.contains(id)) {
      // of a video that it no longer makes
    } else if (message.contains("progress")) {
      auto& done = making_[id].progress;
      done = std::max(done, core::number_in(message, "progress"));
    } else if (message.contains("done") || message.contains("failed")) {
      finish(model, message);
    }
  } catch (const std::exception& e) {  // a full disk, or a message of no sense
    core::log_error("model '{}': {}", model.settings.name, e.what());
  }
  changed_.notify_all();
}

void Videos::finish(Model& model, const json& message) {
  const std::string id = core::text_in(message, "video");
  const Making making = making_[id];
  const double seconds = since(model.began);
  model.at_work.erase(id);
  const auto video = making.is_removed ? std::nullopt : store_.find(id);
  if (!video) {
    std::error_code ignored;
    fs::remove_all(folder_of(id), ignored);
    making_.erase(id);
    ++counts_["cancelled"];
    if (making.is_removed) measured_.observe("cancel_seconds", since(making.removed));
    core::log_info("video is deleted: id={} model={} seconds={:.3f}", id, model.settings.name, seconds);
  } else if (message.contains("done")) {
    json fields = video->fields;
    fields.update(message.at("done"));
    save(id, [this, id, fields] { store_.complete(id, now(), now() + settings_.keep, fields); });
    core::log_info("video is completed: id={} model={} seconds={:.3f}", id, video->model, seconds);
    mean_seconds_ = counts_["completed"]++ == 0 ? seconds : 0.8 * mean_seconds_ + 0.2 * seconds;
    note_times(core::object_in(message, "times"));
    if (const double fps = core::number_in(fields, "fps"); fps > 0 && seconds > 0)
      measured_.observe("realtime_factor", core::number_in(fields, "num_frames") / fps / seconds);
  } else {
    const std::string code = message.value("code", "generation_failed"),
                      why = core::text_in(message, "failed");
    const json error{{"code", code}, {"message", why}};
    note_failure(*video, code, why, seconds);
    save(id, [this, id, error] { store_.fail(id, now(), now() + settings_.keep, error); });
  }
  dispatch_all();
}

// Counts the times that the process measured for a video.
void Videos::note_times(const json& times) {
  for (const auto& [name, value] : times.items())
    for (const auto& one : value.is_array() ? value : json::array({value}))
      if (one.is_number()) measured_.observe(name + "_seconds", one);
}

void Videos::keep_running() {
  std::unique_lock lock(mutex_);
  for (auto look = steady_clock::now(); !is_stopping_;) {
    try {
      start_again(lock);
      if (steady_clock::now() >= look) {  // not with each step of a video
        look = steady_clock::now() + kCheck;
        is_full_ = is_disk_full(settings_.folder);
        bound_logs();
        end_hung();
        drop_expired();
        save_again();
        end_leases();
        dispatch_all();
      }
    } catch (const std::exception& e) {
      complain(fmt::format("serve: {}", e.what()));
    }
    if (!is_stopping_) changed_.wait_for(lock, kCheck);
  }
  changed_.wait(lock, [this] { return is_over_; });
}

void Videos::complain(const std::string& problem) {
  std::erase_if(told_, [](const auto& one) { return since(one.second) >= kTellAgain; });
  if (told_.emplace(problem, steady_clock::now()).second) core::log_error("{}", problem);
}

}  // namespace kinora::serve

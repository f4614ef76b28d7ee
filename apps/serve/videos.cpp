#include "apps/serve/videos.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <unistd.h>
#include <utility>

#include <fmt/ranges.h>
#include <sys/file.h>

#include "apps/serve/api_error.hpp"
#include "apps/serve/videos_model.hpp"
#include "apps/web/guard.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/suggest.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr int64_t kMostStarts = 2;  // of a video whose process ends under it
constexpr std::chrono::seconds kAnswer{20};
constexpr int64_t kMostQuestions = 5;  // about one request, to processes that end under it
constexpr double kLetEnd = 5;          // seconds that a process has to end by itself
constexpr size_t kLivePiece = 256 << 10;
constexpr std::chrono::seconds kCheck{1};  // between looks for what has expired
constexpr uint64_t kLongestLog = 8 << 20;  // bytes of process.log

int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A new folder, which ends with this object unless it is kept.
struct NewFolder {
  explicit NewFolder(fs::path at) : path(std::move(at)) { fs::create_directories(path); }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!is_kept) fs::remove_all(path, ignored);
  }
  const fs::path path;
  bool is_kept = false;
};

std::string new_id() { return "video_" + web::new_token().substr(0, 24); }

// The folder with its parts, for this process alone: a descriptor that holds it.
int own_folder(const fs::path& folder) {
  fs::create_directories(folder / "videos");
  fs::create_directories(folder / "models");
  const int out = open((folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (out < 0) throw Error(KINORA_ERROR_IO, fmt::format("{}: {}", folder.string(), std::strerror(errno)));
  if (flock(out, LOCK_EX | LOCK_NB) == 0) return out;
  close(out);
  throw Error(KINORA_ERROR_INVALID,
              folder.string() + " is the folder of a server that runs; choose another with --folder");
}

double since(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

// The process appends to the file, so that it goes on at the new end; at most a line between the two is lost.
void bound_log(const fs::path& log) {
  std::error_code ignored;
  const auto bytes = fs::file_size(log, ignored);
  if (ignored || bytes <= kLongestLog) return;
  fs::copy_file(log, log.string() + ".old", fs::copy_options::overwrite_existing, ignored);
  fs::resize_file(log, 0, ignored);
}

// "4" or "4.25": seconds of a video with these fields.
std::string seconds_of(const json& fields) {
  const double fps = core::number_in(fields, "fps");
  return fps > 0 ? fmt::format("{:.4g}", core::number_in(fields, "num_frames") / fps) : "0";
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

void Videos::start(Model& model) {
  ++model.processes;
  const auto& of = model.settings;
  const fs::path out = settings_.folder / "models" / of.name;
  fs::create_directories(out);
  std::vector<std::string> arguments{program_.string(), "generate"};
  const bool is_folder = fs::is_directory(of.pipeline);
  if (is_folder) arguments.emplace_back("--pipeline");
  arguments.push_back(of.pipeline.string());
  if (!of.job.empty()) arguments.insert(arguments.end(), {"--job", of.job});
  const std::string job = is_folder || of.job.empty() ? "" : of.job + ".";
  for (const auto& option : of.set) arguments.insert(arguments.end(), {"--set", job + option});
  arguments.insert(arguments.end(), {"--prompt", "", "--name", "serve", "--out", out.string()});
  model.process = std::make_unique<ModelProcess>(
      ModelCommand{of.name, std::move(arguments), out / "process.log"},
      [this, &model](const json& message) { take(model, message); },
      [this, &model](const std::string& why) { end(model, why); });
}

bool Videos::ready(const std::function<bool()>& stopped) {
  std::unique_lock lock(mutex_);
  for (const auto& [name, model] : models_)
    while (model->defaults.is_null()) {
      if (stopped()) return false;
      if (!model->broken.empty())
        throw Error(KINORA_ERROR_INVALID,
                    fmt::format("model '{}' cannot be loaded: {}", name, model->broken));
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
  if (keeper_.joinable()) keeper_.join();
  for (auto& [_, model] : all)
    if (model->process) model->process->stop(kLetEnd);
  for (auto& [_, model] : all) model->process.reset();
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

void Videos::require_room() const {
  const int64_t queued = store_.queued();
  if (queued < settings_.max_queue) return;
  const auto wait =
      static_cast<int64_t>(mean_seconds_ / static_cast<double>(std::max<size_t>(models_.size(), 1))) + 1;
  ApiError full(
      429,
      fmt::format("{} videos wait already, the most that this server takes; try again in {} s", queued, wait),
      "queue_full");
  full.headers = {{"Retry-After", std::to_string(wait)}, {"x-should-retry", wait <= 120 ? "true" : "false"}};
  throw full;
}

void Videos::require_length(const json& fields) const {
  const double fps = core::number_in(fields, "fps"), all = core::number_in(fields, "num_frames");
  if (fps > 0 && all / fps > static_cast<double>(settings_.seconds))
    throw ApiError(
        400,
        fmt::format("the video has {:.4g} s; this server makes at most {}", all / fps, settings_.seconds),
        "too_long", "seconds");
}

json Videos::checked(std::unique_lock<std::mutex>& lock, Model& of, const json& fields) {
  const int64_t question = ++of.asked;
  json answer;
  const auto until = steady_clock::now() + kAnswer;
  // A process that starts again is asked when it is there. If several end under the question, they may do so of it.
  int64_t asked = -1, times = 0;
  const auto is_lost = [&] { return of.is_gone || of.processes != asked; };
  while (!is_stopping_ && answer.is_null() && !(times == kMostQuestions && is_lost()) &&
         steady_clock::now() < until) {
    if (times < kMostQuestions && is_lost() && !of.defaults.is_null() &&
        of.process->send({{"check", question}, {"fields", fields}})) {
      asked = of.processes;
      ++times;
    }
    changed_.wait_until(lock, until);
    if (is_stopping_) break;  // the model may be gone
    if (const auto at = of.answers.find(question); at != of.answers.end()) {
      answer = at->second;
      of.answers.erase(at);
    }
  }
  if (is_stopping_) throw ApiError(503, "the server ends", "server_ends");
  if (answer.contains("fields")) {
    json out = answer.at("fields");
    out["bytes"] = core::number_in(answer, "bytes");
    return out;
  }
  if (answer.contains("error"))
    throw ApiError(400, core::text_in(answer, "error"), "invalid_value", core::text_in(answer, "param"));
  throw ApiError(503, "the model '" + of.settings.name + "' does not answer; it may be starting again",
                 "model_starts");
}

json Videos::create(json fields, const std::vector<GivenFile>& files, const std::string& key) {
  StoredVideo video{.id = new_id(), .created = now()};
  std::unique_lock lock(mutex_);
  // A repeated request has its video, however full the queue is now.
  if (const auto known = store_.id_of_key(key); !known.empty()) return object(stored(known));
  if (is_draining_) throw ApiError(503, "the server ends", "server_ends");
  Model& of = model(core::text_in(fields, "model"));
  video.model = of.settings.name;
  video.remixed_from = core::text_in(fields, "remixed_from");
  fields.erase("model");
  fields.erase("remixed_from");
  require_room();
  lock.unlock();
  if (!fields.contains("seed")) fields["seed"] = std::stoull(web::new_token().substr(0, 8), nullptr, 16);
  NewFolder folder(folder_of(video.id));
  for (const auto& given : files) {
    const fs::path kept = folder.path / ("given_" + given.field);
    fs::copy_file(given.file, kept);
    fields[given.field] = kept.string();
  }
  lock.lock();
  if (is_stopping_) throw ApiError(503, "the server ends", "server_ends");
  video.fields = checked(lock, of, fields);
  require_length(video.fields);
  require_fit(video.fields);
  require_room();  // others were accepted meanwhile
  const std::string id = store_.add(video, key);
  if (id == video.id) {  // else a repeated request
    folder.is_kept = true;
    ++counts_["accepted"];
    accepted_[id] = steady_clock::now();
  }
  dispatch_all();
  return object(stored(id));
}

json Videos::remix(const std::string& id, const std::string& prompt, const std::string& key) {
  const StoredVideo from = stored(id);
  if (from.status != Status::completed)
    throw ApiError(409,
                   "video " + id + " is " + name_of(from.status) + "; only a completed one can be remixed",
                   "not_ready");
  json fields = from.fields;
  fields["prompt"] = prompt;
  fields.erase("shots");  // the new prompt is for all of its length
  fields["model"] = from.model;
  fields["remixed_from"] = id;
  std::vector<GivenFile> files;
  for (const char* name : {"image", "video"})
    if (const auto file = core::text_in(fields, name); !file.empty()) files.push_back({name, file});
  return create(std::move(fields), files, key);
}

void Videos::dispatch(Model& model) {
  if (is_stopping_ || is_draining_ || model.defaults.is_null() || !model.at_work.empty()) return;
  if (!model.was_live && dispatch_live(model)) return;
  try {
    while (has_room_for_next(model)) {
      const auto video = store_.begin_next(model.settings.name);
      if (!video) break;
      if (video->starts > kMostStarts) {
        fail(*video, "model_failed", "the model's process ended twice while it made this video");
        continue;
      }
      model.at_work = video->id;
      model.was_live = false;
      model.began = steady_clock::now();
      making_[video->id] = {.bytes = static_cast<int64_t>(core::number_in(video->fields, "bytes"))};
      if (const auto at = accepted_.find(video->id); at != accepted_.end()) {
        measured_.observe("queue_seconds", since(at->second));
        accepted_.erase(at);
      }
      model.process->send(
          {{"make", video->id}, {"folder", folder_of(video->id).string()}, {"fields", video->fields}});
      return;
    }
  } catch (const std::exception& e) {  // a full disk: what is queued stays so
    core::log_error("model '{}': its next video cannot begin: {}", model.settings.name, e.what());
  }
  dispatch_live(model);
}

void Videos::fail(const StoredVideo& video, const std::string& code, const std::string& why) {
  store_.fail(video.id, now(), now() + settings_.keep, {{"code", code}, {"message", why}});
  ++counts_["failed"];
}

void Videos::take(Model& model, const json& message) {
  if (message.contains("live")) return take_live(model, message);
  const std::scoped_lock lock(mutex_);
  if (is_stopping_) return;
  try {
    if (message.contains("ready")) {
      model.defaults = message.at("ready");
      model.is_live = message.value("makes_live", false);
      model.was_loaded = true;
      model.weights = static_cast<int64_t>(core::number_in(message, "weights"));
      dispatch_all();
    } else if (message.contains("checked")) {
      model.answers[message.at("checked").get<int64_t>()] = message;
    } else if (core::text_in(message, "video") != model.at_work || model.at_work.empty()) {
      // of a video that it no longer makes
    } else if (message.contains("progress")) {
      auto& done = making_[model.at_work].progress;
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
  model.at_work.clear();
  const auto video = making.is_removed ? std::nullopt : store_.find(id);
  if (!video) {
    std::error_code ignored;
    fs::remove_all(folder_of(id), ignored);
    making_.erase(id);
    ++counts_["cancelled"];
    if (making.is_removed) measured_.observe("cancel_seconds", since(making.removed));
  } else if (message.contains("done")) {
    json fields = video->fields;
    fields.update(message.at("done"));
    save(id, [this, id, fields] { store_.complete(id, now(), now() + settings_.keep, fields); });
    const double seconds = since(model.began);
    mean_seconds_ = counts_["completed"]++ == 0 ? seconds : 0.8 * mean_seconds_ + 0.2 * seconds;
    note_times(core::object_in(message, "times"));
    if (const double fps = core::number_in(fields, "fps"); fps > 0 && seconds > 0)
      measured_.observe("realtime_factor", core::number_in(fields, "num_frames") / fps / seconds);
  } else {
    ++counts_["failed"];
    const json error{{"code", "generation_failed"}, {"message", core::text_in(message, "failed")}};
    save(id, [this, id, error] { store_.fail(id, now(), now() + settings_.keep, error); });
  }
  dispatch_all();
}

// What the process measured of a video.
void Videos::note_times(const json& times) {
  for (const auto& [name, value] : times.items())
    for (const auto& one : value.is_array() ? value : json::array({value}))
      if (one.is_number()) measured_.observe(name + "_seconds", one);
}

// The video that it made is begun again, once.
void Videos::end(Model& model, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (is_stopping_) return;
  if (!model.was_loaded) {
    model.broken = why;
    changed_.notify_all();
    return;
  }
  core::log_error("model '{}': its process is gone: {}; it starts again", model.settings.name, why);
  lose_live(model);
  if (!model.at_work.empty()) {
    if (making_[model.at_work].is_removed) {
      std::error_code ignored;
      fs::remove_all(folder_of(model.at_work), ignored);
    } else {
      try {
        store_.requeue(model.at_work);
      } catch (const std::exception& e) {
        core::log_error("video {} begins again with the next start of the server: {}", model.at_work,
                        e.what());
      }
    }
    making_.erase(model.at_work);
  }
  model.at_work.clear();
  model.again = steady_clock::now() + (model.defaults.is_null() ? kCheck : std::chrono::seconds(0));
  model.defaults = json();
  model.is_gone = true;
  changed_.notify_all();
}

void Videos::start_again(std::unique_lock<std::mutex>& lock) {
  for (auto& [_, model] : models_) {
    if (!model->is_gone || steady_clock::now() < model->again) continue;
    model->again = steady_clock::now() + kCheck;  // if it cannot be started
    auto old = std::move(model->process);
    lock.unlock();  // its thread may wait for it
    old.reset();
    lock.lock();
    if (is_stopping_) return;
    start(*model);
    model->is_gone = false;
  }
}

void Videos::keep_running() {
  std::unique_lock lock(mutex_);
  for (auto look = steady_clock::now(); !is_stopping_;) {
    try {
      start_again(lock);
      if (steady_clock::now() >= look) {  // not with each step of a video
        look = steady_clock::now() + kCheck;
        for (const auto& one : settings_.models)
          bound_log(settings_.folder / "models" / one.name / "process.log");
        drop_expired();
        save_again();
        dispatch_all();
      }
    } catch (const std::exception& e) {
      core::log_error("serve: {}", e.what());
    }
    if (!is_stopping_) changed_.wait_for(lock, kCheck);
  }
}

StoredVideo Videos::stored(const std::string& id) const {
  if (auto video = store_.find(id)) return *video;
  throw ApiError(404, "there is no video '" + id + "'", "not_found", "id");
}

json Videos::object(const StoredVideo& v) const {
  const auto time = [](int64_t at) { return at > 0 ? json(at) : json(); };
  int64_t progress = v.status == Status::completed ? 100 : 0;
  if (const auto at = making_.find(v.id); at != making_.end())
    progress = std::clamp<int64_t>(static_cast<int64_t>(at->second.progress * 100), 0, 99);
  json out{
      {"id", v.id},
      {"object", "video"},
      {"created_at", v.created},
      {"completed_at", time(v.completed)},
      {"expires_at", time(v.expires)},
      {"model", v.model},
      {"progress", progress},
      {"prompt", core::text_in(v.fields, "prompt")},
      {"remixed_from_video_id", v.remixed_from.empty() ? json() : json(v.remixed_from)},
      {"seconds", seconds_of(v.fields)},
      {"size", fmt::format("{}x{}", core::number_in(v.fields, "width"), core::number_in(v.fields, "height"))},
      {"status", name_of(v.status)},
      {"error", v.error},
      {"seed", v.fields.value("seed", json())}};
  for (const char* name : {"num_frames", "fps", "steps", "guidance_scale", "strength", "negative_prompt"})
    if (v.fields.contains(name)) out[name] = v.fields.at(name);
  for (const char* name : {"image", "video"})
    if (v.fields.contains(name)) out["input_reference"] = name;
  for (const auto& shot : v.fields.value("shots", json::array()))
    out["shots"].push_back(core::parse_facts(shot.get<std::string>()));
  return out;
}

json Videos::get(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  return object(stored(id));
}

json Videos::list(const std::string& after, int64_t limit, bool ascending) const {
  bool more = false;
  json data = json::array();
  const std::scoped_lock lock(mutex_);
  const auto page = store_.page(after, limit, ascending, more);
  for (const auto& video : page) data.push_back(object(video));
  const auto id_of = [&](size_t at) { return page.empty() ? json() : json(page[at].id); };
  return {{"object", "list"},
          {"data", data},
          {"has_more", more},
          {"first_id", id_of(0)},
          {"last_id", id_of(page.empty() ? 0 : page.size() - 1)}};
}

json Videos::remove(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  stored(id);
  store_.remove(id);
  if (const auto at = making_.find(id); at != making_.end()) {
    at->second.removed = steady_clock::now();
    at->second.is_removed = true;  // its folder goes when the process is done with it
    for (auto& [_, model] : models_)
      if (model->at_work == id) model->process->send({{"cancel", id}});
  } else {
    std::error_code ignored;
    fs::remove_all(folder_of(id), ignored);
    accepted_.erase(id);
    dispatch_all();
  }
  changed_.notify_all();
  return {{"id", id}, {"object", "video.deleted"}, {"deleted", true}};
}

json Videos::models() const {
  const std::scoped_lock lock(mutex_);
  json data = json::array();
  for (const auto& [name, model] : models_)
    data.push_back({{"id", name},
                    {"object", "model"},
                    {"created", 0},
                    {"owned_by", "kinora"},
                    {"defaults", model->defaults}});
  return {{"object", "list"}, {"data", data}};
}

json Videos::health() const {
  const std::scoped_lock lock(mutex_);
  const bool all = std::all_of(models_.begin(), models_.end(),
                               [](const auto& m) { return !m.second->defaults.is_null(); });
  return {{"status", all ? "ok" : "loading"}, {"queued", store_.queued()}, {"in_progress", making_.size()}};
}

std::string Videos::metrics() const {
  const std::scoped_lock lock(mutex_);
  std::string out = "# TYPE kinora_serve_jobs gauge\n";
  out +=
      fmt::format("kinora_serve_jobs{{state=\"queued\"}} {}\nkinora_serve_jobs{{state=\"in_progress\"}} {}\n",
                  store_.queued(), making_.size());
  out +=
      fmt::format("# TYPE kinora_serve_live_sessions gauge\nkinora_serve_live_sessions {}\n", lives_.size());
  for (const char* name : {"accepted", "completed", "failed", "cancelled"}) {
    const auto at = counts_.find(name);
    out += fmt::format("# TYPE kinora_serve_{0}_total counter\nkinora_serve_{0}_total {1}\n", name,
                       at == counts_.end() ? 0 : at->second);
  }
  return out + measured_.text();
}

fs::path Videos::content(const std::string& id, const std::string& name) const {
  const StoredVideo video = stored(id);
  const fs::path file = folder_of(id) / name;
  if (video.status == Status::completed) return file;
  if (name == "thumbnail.webp" && video.status == Status::in_progress && fs::exists(file)) return file;
  ApiError not_yet(409,
                   fmt::format("video {} is {}{}", id, name_of(video.status),
                               video.status == Status::failed ? ""
                               : name == "video.mp4"          ? "; ask again later, or with ?live=1"
                                                              : "; ask again later"),
                   video.status == Status::failed ? "failed" : "not_ready");
  not_yet.headers = {{"x-should-retry", "false"}};
  throw not_yet;
}

std::optional<std::string> Videos::next(Viewer& viewer) const {
  if (is_stopping_) throw ApiError(503, "the server ends", "server_ends");
  const auto status = stored(viewer.id).status;  // before its bytes: of a finished one these are all
  // Kept open, because another file takes the place of the growing one at its end, with an index in front.
  for (const char* name : {"live.mp4", "video.mp4"})
    if (!viewer.file.is_open()) viewer.file.open(folder_of(viewer.id) / name, std::ios::binary);
  std::string out;
  if (viewer.file.is_open()) {
    viewer.file.clear();
    if (viewer.file.seekg(0, std::ios::end).tellg() < static_cast<std::streamoff>(viewer.at))
      throw ApiError(503, "video " + viewer.id + " begins again", "begins_again");
    out.resize(kLivePiece);
    viewer.file.seekg(static_cast<std::streamoff>(viewer.at)).read(out.data(), kLivePiece);
    out.resize(static_cast<size_t>(viewer.file.gcount()));
    viewer.at += out.size();
  }
  if (!out.empty() || status == Status::completed) return out;
  if (status == Status::failed) throw ApiError(409, "video " + viewer.id + " is failed", "failed");
  return std::nullopt;
}

// What no video of the store has, after an end in which a folder was left.
void Videos::clean_up() const {
  std::set<std::string> known;
  for (auto& id : store_.ids()) known.insert(id);
  fs::remove_all(settings_.folder / "live");
  for (const auto& entry : fs::directory_iterator(settings_.folder / "videos"))
    if (!known.contains(entry.path().filename().string())) fs::remove_all(entry.path());
}

void Videos::drop_expired() {
  for (const auto& id : store_.expired(now())) {
    store_.remove(id);
    std::error_code ignored;
    fs::remove_all(folder_of(id), ignored);
  }
}

}  // namespace kinora::serve

// Live sessions of the models: each takes its turn between the videos.
#include <algorithm>

#include "apps/serve/api_error.hpp"
#include "apps/serve/videos.hpp"
#include "apps/serve/videos_model.hpp"
#include "apps/web/guard.hpp"
#include "core/base/facts.hpp"

namespace kinora::serve {

using nlohmann::json;
using std::chrono::steady_clock;
namespace fs = std::filesystem;

namespace {
constexpr size_t kMostUnsentOfLive = 100;  // messages to a session that waits
constexpr size_t kMostPast = 64;           // sessions that have ended, of their viewers' last messages

ApiError no_session(const std::string& id, const char* param) {
  return {404, "there is no session '" + id + "', or its lease is over; start another", "session_not_found",
          param};
}

}  // namespace

std::string Videos::begin_live(json fields, TellViewer tell, const TellQueued& queued) {
  std::unique_lock lock(mutex_);
  require_open();
  Model& of = model(core::text_in(fields, "model"));
  fields.erase("model");
  if (!of.is_live)
    throw ApiError(400,
                   "model '" + of.settings.name +
                       "' makes its video at once; live sessions are for models with teacher_forcing",
                   "unsupported", "model");
  if (!fields.contains("seed")) fields["seed"] = std::stoull(web::new_token().substr(0, 8), nullptr, 16);
  const bool has_length = fields.contains("seconds") || fields.contains("num_frames");
  if (!has_length) fields["seconds"] = settings_.seconds;
  fields = checked(lock, of, fields);
  if (has_length) require_length(fields);
  require_fit(fields);
  return add_live(of, {.model = of.settings.name, .fields = std::move(fields), .tell = std::move(tell)},
                  queued);
}

std::string Videos::branch_live(const std::string& of, int64_t chunks, TellViewer tell,
                                const TellQueued& queued) {
  const std::scoped_lock lock(mutex_);
  require_open();
  const auto at_work = lives_.find(of), past = past_lives_.find(of);
  if (at_work == lives_.end() && past == past_lives_.end()) throw no_session(of, "branch");
  const Live& source = past == past_lives_.end() ? at_work->second : past->second;
  if (!source.has_begun)
    throw ApiError(409, "session '" + of + "' has no chunk yet", "not_started", "branch");
  return add_live(*models_.at(source.model),
                  {.model = source.model,
                   .fields = source.fields,
                   .tell = std::move(tell),
                   .branch = {{"session", of}, {"chunk", chunks}}},
                  queued);
}

void Videos::require_open() const {
  if (is_stopping_ || is_draining_) throw ApiError(503, "the server ends", "server_ends");
}

std::string Videos::add_live(Model& of, Live live, const TellQueued& queued) {
  if (static_cast<int64_t>(of.lives.size()) >= settings_.max_queue)
    throw ApiError(429, "as many sessions wait as this server takes; try again later", "queue_full");
  const std::string id = "live_" + web::new_token().substr(0, 24);
  queued(id, static_cast<int64_t>(of.lives.size() + of.at_work.size()));
  lives_[id] = std::move(live);
  of.lives.push_back(id);
  dispatch(of);
  return id;
}

bool Videos::dispatch_live(Model& model) {
  if (model.lives.empty() || !model.at_work.empty()) return false;
  const std::string id = model.lives.front();
  if (!has_room(model, lives_.at(id).fields)) return false;
  model.lives.pop_front();
  const fs::path folder = settings_.folder / "live" / id;
  std::error_code ignored;  // the process says that it cannot write there
  fs::create_directories(folder, ignored);
  Live& live = lives_.at(id);
  model.at_work = {id};
  model.was_live = live.has_begun = true;
  json begin{{"live", id}, {"folder", folder.string()}, {"fields", live.fields}};
  if (!live.branch.is_null()) begin["branch"] = live.branch;
  model.process->send(begin);
  for (const auto& message : live.unsent) model.process->send(message);
  live.unsent.clear();
  return true;
}

void Videos::steer(const std::string& id, json message) {
  const std::scoped_lock lock(mutex_);
  const auto at = lives_.find(id);
  if (at == lives_.end() || is_stopping_) return;  // it has ended meanwhile
  message["steer"] = id;
  Live& live = at->second;
  live.is_paused = message.value("pause", live.is_paused);
  if (live.has_begun)
    models_.at(live.model)->process->send(message);
  else if (live.unsent.size() < kMostUnsentOfLive)
    live.unsent.push_back(std::move(message));
  else
    throw ApiError(429, "the session waits; send this when it has begun", "not_started");
}

void Videos::stop_live(const std::string& id) {
  TellViewer tell;
  {
    const std::scoped_lock lock(mutex_);
    const auto at = lives_.find(id);
    if (at == lives_.end() || is_stopping_) return;
    Model& of = *models_.at(at->second.model);
    if (at->second.has_begun) {
      of.process->send({{"cancel", id}});
      return;
    }
    tell = std::move(at->second.tell);
    std::erase(of.lives, id);
    lives_.erase(at);
  }
  tell(id, {{"done", {{"reason", "stopped"}, {"num_frames", 0}}}});
}

void Videos::leave_live(const std::string& id) {
  {
    const std::scoped_lock lock(mutex_);
    const auto at = lives_.find(id);
    if (at == lives_.end() || is_stopping_) return;
    Live& live = at->second;
    if (live.has_begun && settings_.lease > 0 && !is_draining_) {
      live.until = steady_clock::now() + std::chrono::seconds(settings_.lease);
      models_.at(live.model)->process->send({{"steer", id}, {"pause", true}});
      return;
    }
  }
  stop_live(id);
}

void Videos::resume_live(const std::string& id, int64_t taken) {
  const std::scoped_lock lock(mutex_);
  const auto at = lives_.find(id);
  if (at == lives_.end() || is_stopping_) return;  // it has ended, and its viewer was told
  at->second.until.reset();
  if (at->second.has_begun)
    models_.at(at->second.model)->process->send({{"steer", id}, {"pause", at->second.is_paused}, {"taken", taken}});
}

bool Videos::is_paused(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const auto at = lives_.find(id);
  return at != lives_.end() && at->second.is_paused;
}

void Videos::end_leases() {
  if (is_stopping_) return;
  const auto now = steady_clock::now();
  for (const auto& [id, live] : lives_) {
    if (!live.until) continue;
    const bool is_over = is_draining_ || now >= *live.until;
    models_.at(live.model)->process->send({{is_over ? "cancel" : "steer", id}});  // else it would stall
  }
  std::erase_if(past_lives_, [&](const auto& one) {
    const auto is_its_branch = [&](const auto& live) {
      return !live.second.has_begun && core::text_in(live.second.branch, "session") == one.first;
    };
    if (now < *one.second.until || std::ranges::any_of(lives_, is_its_branch)) return false;
    if (const auto& process = models_.at(one.second.model)->process) process->send({{"forget", one.first}});
    return true;
  });
}

void Videos::take_live(Model& model, const json& message) {
  const std::string id = core::text_in(message, "live");
  TellViewer tell;
  {
    const std::scoped_lock lock(mutex_);
    const auto at = lives_.find(id);
    if (is_stopping_ || at == lives_.end() || !model.at_work.contains(id)) return;
    tell = at->second.tell;
    if (message.contains("done") || message.contains("failed")) {
      forget_live(model, id);
      dispatch_all();
      changed_.notify_all();
    }
  }
  // Without the lock: the viewer's connection has one of its own.
  tell(id, message);
}

// It ends the session at work.
void Videos::forget_live(Model& model, const std::string& id) {
  std::error_code ignored;
  fs::remove_all(settings_.folder / "live" / id, ignored);
  if (const auto at = lives_.find(id); at != lives_.end()) {
    at->second.until = steady_clock::now() + std::chrono::seconds(settings_.lease);
    past_lives_.insert(lives_.extract(at));
    if (past_lives_.size() > kMostPast)
      past_lives_.erase(
          std::ranges::min_element(past_lives_, {}, [](const auto& one) { return *one.second.until; }));
  }
  model.at_work.clear();
}

std::function<void()> Videos::lose_live(Model& model) {
  const auto at = model.at_work.empty() ? lives_.end() : lives_.find(*model.at_work.begin());
  if (at == lives_.end()) return nullptr;
  const std::string id = at->first;
  const TellViewer tell = at->second.tell;
  forget_live(model, id);
  return [tell, id] { tell(id, {{"failed", "the model's process has ended; start another session"}}); };
}

}  // namespace kinora::serve

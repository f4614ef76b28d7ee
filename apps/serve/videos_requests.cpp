// Answers what clients ask of a server's videos.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>

#include <fmt/ranges.h>

#include "apps/serve/api_error.hpp"
#include "apps/serve/videos_model.hpp"
#include "apps/web/guard.hpp"
#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/suggest.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kAnswer{20}, kLook{1};
constexpr double kSilent = 3;          // seconds without a sign of life after which no model is waited for
constexpr int64_t kMostAsking = 4;     // requests that wait for a model which starts again
constexpr int64_t kAgain = 5;          // seconds after which a request may be repeated
constexpr int64_t kMostQuestions = 5;  // about one request, to processes that end under it
constexpr size_t kLivePiece = 256 << 10;

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

// "4" or "4.25": seconds of a video with these fields.
std::string seconds_of(const json& fields) {
  const double fps = core::number_in(fields, "fps");
  return fps > 0 ? fmt::format("{:.4g}", core::number_in(fields, "num_frames") / fps) : "0";
}

// One more, while this object lives. With the lock that guards the number.
struct Counted {
  explicit Counted(int64_t& all) : count(all) { ++count; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --count; }
  int64_t& count;
};

ApiError unanswered(const std::string& model, const std::string& why) {
  ApiError out(503,
               fmt::format("the model '{}' does not answer{}; try again in {} s", model,
                           why.empty() ? "" : " and starts again: " + why, kAgain),
               "model_starts");
  out.headers = {{"Retry-After", std::to_string(kAgain)}};
  return out;
}

// The field of a request that a model's refusal names first; "": none.
std::string named_field(const std::string& why, const json& asked) {
  static const std::map<std::string, std::string> kOptions{
      {"width", "size"}, {"height", "size"}, {"frames", "num_frames"}, {"guidance", "guidance_scale"}};
  std::string word;
  for (size_t i = 0; i <= why.size(); ++i) {
    const char c = i < why.size() ? why[i] : ' ';
    if ((c >= 'a' && c <= 'z') || c == '_') {
      word += c;
      continue;
    }
    const auto at = kOptions.find(word);
    const std::string name = at == kOptions.end() ? word : at->second;
    if (asked.contains(word) || asked.contains(name)) return name;
    if (name == "num_frames" && asked.contains("seconds")) return "seconds";
    word.clear();
  }
  return "";
}

// The digest of a request, which is compared with that of another one with its key; "" without a key. Reads the files
// whole.
std::string digest_of(const json& fields, const std::vector<GivenFile>& files, const std::string& key) {
  if (key.empty()) return "";
  json all{{"fields", fields}};
  for (const auto& given : files) all[given.field] = core::sha256_of_file(given.file);
  return core::sha256(all.dump());
}

// Throws unless the earlier request with the key, which made `known`, was the same. Videos of earlier versions have no
// digest and pass.
void require_same_request(const StoredVideo& known, const std::string& digest) {
  const std::string its = core::text_in(known.fields, "request");
  if (its.empty() || its == digest) return;
  throw ApiError(409,
                 "another request had this Idempotency-Key, for video " + known.id +
                     "; send the same fields and files, or another key",
                 "idempotency_mismatch");
}

// The fields of a model's answer to a check.
json checked_fields(const json& answer, const json& asked) {
  if (answer.contains("fields")) {
    json out = answer.at("fields");
    out["bytes"] = core::number_in(answer, "bytes");
    out["alike"] = core::text_in(answer, "alike");
    return out;
  }
  const std::string why = core::text_in(answer, "error"), param = core::text_in(answer, "param");
  throw ApiError(400, why, "invalid_value", param.empty() ? named_field(why, asked) : param);
}

}  // namespace

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
  const double asked = core::number_in(fields, "seconds");
  if (asked > static_cast<double>(settings_.seconds))
    throw ApiError(400, fmt::format("seconds: {:.4g} s; this server makes at most {}", asked, settings_.seconds),
                   "too_long", "seconds");
  const double fps = core::number_in(fields, "fps"), all = core::number_in(fields, "num_frames");
  if (fps > 0 && all / fps > static_cast<double>(settings_.seconds))
    throw ApiError(
        400,
        fmt::format("the video has {:.4g} s; this server makes at most {}", all / fps, settings_.seconds),
        "too_long", "seconds");
}

json Videos::checked(std::unique_lock<std::mutex>& lock, Model& of, const json& fields) {
  const Counted here(asking_);
  if (!of.is_up() && asking_ > kMostAsking) throw unanswered(of.settings.name, of.broken);
  const int64_t question = ++of.asked;
  const auto until = steady_clock::now() + kAnswer;
  // A process that starts again is asked when it is there. If several end under the question, they may do so of it.
  int64_t asked = -1, times = 0;
  const auto is_lost = [&] { return of.is_gone || of.processes != asked; };
  for (;;) {
    if (const auto at = of.answers.find(question); at != of.answers.end()) {
      const json answer = std::move(at->second);
      of.answers.erase(at);
      return checked_fields(answer, fields);
    }
    if (steady_clock::now() >= until || (times == kMostQuestions && is_lost()) ||
        (of.is_up() && of.process->silence() > kSilent))
      throw unanswered(of.settings.name, of.broken);
    if (times < kMostQuestions && is_lost() && of.is_up() &&
        of.process->send({{"check", question}, {"fields", fields}})) {
      asked = of.processes;
      ++times;
    }
    changed_.wait_until(lock, std::min(until, steady_clock::now() + kLook));
    if (is_stopping_) throw ApiError(503, "the server ends", "server_ends");  // the model may be gone
  }
}

json Videos::create(json fields, const std::vector<GivenFile>& files, const std::string& key) {
  StoredVideo video{.id = new_id(), .created = now()};
  const std::string digest = digest_of(fields, files, key);
  std::unique_lock lock(mutex_);
  // A repeated request has its video, however full the queue is now.
  if (const auto known = store_.id_of_key(key); !known.empty()) {
    const StoredVideo its = stored(known);
    require_same_request(its, digest);
    return object(its);
  }
  if (is_draining_) throw ApiError(503, "the server ends", "server_ends");
  Model& of = model(core::text_in(fields, "model"));
  video.model = of.settings.name;
  video.remixed_from = core::text_in(fields, "remixed_from");
  fields.erase("model");
  fields.erase("remixed_from");
  if (fields.contains("shots") && !of.makes_shots)
    throw ApiError(400,
                   "model '" + of.settings.name +
                       "' makes its video at once, of one prompt; GET /v1/models says which models take shots",
                   "unsupported", "shots");
  require_room();
  require_length(fields);
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
  if (!digest.empty()) video.fields["request"] = digest;
  const std::string id = store_.add(video, key);
  if (id != video.id) {  // a repeated request
    require_same_request(stored(id), digest);
  } else {
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
  for (const char* other : {"shots", "request", "awaited"})  // the new prompt is for all of its length
    fields.erase(other);
  fields["model"] = from.model;
  fields["remixed_from"] = id;
  std::vector<GivenFile> files;
  for (const char* name : {"image", "video"})
    if (const auto file = core::text_in(fields, name); !file.empty()) files.push_back({name, file});
  return create(std::move(fields), files, key);
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
  for (const char* name :
       {"num_frames", "fps", "steps", "guidance_scale", "strength", "negative_prompt", "lora"})
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
  if (const auto at = making_.find(id); at != making_.end()) {
    store_.remove(id);
    at->second.removed = steady_clock::now();
    at->second.is_removed = true;  // its folder goes when the process is done with it
    for (auto& [_, model] : models_)
      if (model->at_work.contains(id)) model->process->send({{"cancel", id}});
  } else {
    forget(id);
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
                    {"input_modalities", model->inputs},
                    {"output_modalities", model->outputs},
                    {"loras", model->loras},
                    {"live", model->is_live},
                    {"shots", model->makes_shots},
                    {"defaults", model->defaults}});
  return {{"object", "list"}, {"data", data}};
}

json Videos::health() const {
  const std::scoped_lock lock(mutex_);
  json out{{"status", is_full_ ? "disk_full" : "ok"},
           {"queued", store_.queued()},
           {"in_progress", making_.size()},
           {"live_sessions", lives_.size()}};
  for (const auto& [name, model] : models_) {
    if (model->is_up()) continue;
    out["status"] = "model_down";
    out["models"].push_back(
        {{"id", name}, {"state", model->is_gone ? "waiting" : "starting"}, {"reason", model->broken}});
  }
  return out;
}

std::string Videos::metrics() const {
  const std::scoped_lock lock(mutex_);
  std::string out = "# TYPE kinora_serve_jobs gauge\n";
  out +=
      fmt::format("kinora_serve_jobs{{state=\"queued\"}} {}\nkinora_serve_jobs{{state=\"in_progress\"}} {}\n",
                  store_.queued(), making_.size());
  out +=
      fmt::format("# TYPE kinora_serve_live_sessions gauge\nkinora_serve_live_sessions {}\n", lives_.size());
  out += "# TYPE kinora_serve_models_up gauge\n";
  for (const auto& [name, model] : models_)
    out += fmt::format("kinora_serve_models_up{{{}}} {}\n", Metrics::label("model", name),
                       model->is_up() ? 1 : 0);
  out += "# TYPE kinora_serve_restarts_total counter\n";
  for (const auto& [name, model] : models_)
    out += fmt::format("kinora_serve_restarts_total{{{}}} {}\n", Metrics::label("model", name),
                       std::max<int64_t>(model->processes - 1, 0));
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
  if (is_stopping_) throw ApiError(503, "the server ends", "server_ends");
  return std::nullopt;
}

}  // namespace kinora::serve

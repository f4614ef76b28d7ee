#include "apps/serve/serve.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <sys/resource.h>

#include "apps/serve/access.hpp"
#include "apps/serve/api_error.hpp"
#include "apps/serve/disk.hpp"
#include "apps/serve/fields.hpp"
#include "apps/serve/live.hpp"
#include "apps/serve/retries.hpp"
#include "apps/serve/videos.hpp"
#include "apps/web/guard.hpp"
#include "apps/web/pages.hpp"
#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "plugins/jobs/data/base64.hpp"

namespace kinora::serve {

const std::vector<PageFile>& page_files();  // of page/, which the build has embedded

namespace {

using web::Answer;
using web::json_answer;
using web::Request;

constexpr size_t kJsonBytes = 1 << 20;
constexpr int64_t kMostOfPage = 100;
constexpr size_t kConnections = 2000;            // a viewer has one while it watches
constexpr double kStrength = 0.7;                // of an edit: the share of steps that change the video
constexpr int kMostWaiting = 8;                  // half of the server's threads
constexpr std::chrono::seconds kLastAnswers{2};  // that open answers have at least, once no work is left
constexpr const char* kLastMessage =
    R"({"type": "error", "code": "server_ends", "message": "the server ends; start another session later"})";

class Api {
 public:
  Api(web::Server& http, Videos& videos, const Settings& settings)
      : http_(http), videos_(videos), folder_(settings.folder), uploads_(folder_ / "uploads") {
    http_.set_refuse([this](int status, const std::string& why) {
      return answer_of(status == 507 ? disk_full(folder_) : ApiError(status, why));
    });
    http_.set_watch([this](const std::string& route, const Answer& answer) { watch(route, answer); });
    make();
    make_of_video();
    look();
    about();
  }

 private:
  // f's answer, or its error. An Error that the caller cannot correct says its reason too: the server is the caller's
  // own.
  template <class F>
  web::Handler answering(F f) const {
    return [this, f](const Request& request) {
      try {
        return f(request);
      } catch (const ApiError& e) {
        return answer_of(e);
      } catch (const std::exception& e) {
        const auto* error = dynamic_cast<const Error*>(&e);
        if (error && error->code() == KINORA_ERROR_INVALID) return answer_of(ApiError(400, e.what()));
        if (error && error->code() == KINORA_ERROR_NOT_FOUND) return answer_of(ApiError(404, e.what()));
        return answer_of(is_of_full_disk(e, folder_) ? disk_full(folder_) : ApiError(500, e.what()));
      }
    };
  }

  void watch(const std::string& route, const Answer& answer) const {
    if (answer.status == 0) return videos_.measured().count("disconnects_total");
    videos_.measured().count("requests_total",
                             fmt::format("route=\"{}\",status=\"{}\"", route, answer.status));
    if (answer.status < 500 || route == "/health") return;  // which is asked again and again
    std::string id;
    for (const auto& [name, value] : answer.headers)
      if (name == "x-request-id") id = value;
    core::log_error("answer: status={} route={} request={} {}", answer.status, route, id, answer.body);
  }

  void make() {
    http_.upload("/v1/videos", answering([this](const Request& r) {
                   return json_answer(200, create(fields_in(r), r));
                 }));
    http_.post("/v1/videos/{id}/remix", answering([this](const Request& r) {
                 const VideoFields given = fields_of(core::parse_facts(r.body));
                 if (given.fields.size() != 1 || !given.fields.contains("prompt"))
                   throw ApiError(400, "a remix takes a prompt and nothing else", "invalid_value");
                 return json_answer(200, once(given, r, [&] {
                                      return videos_.remix(r.places.at("id"), given.fields.at("prompt"),
                                                           r.header("idempotency-key"));
                                    }));
               }));
    http_.remove("/v1/videos/{id}", answering([this](const Request& r) {
                   return json_answer(200, videos_.remove(r.places.at("id")));
                 }));
  }

  void make_of_video() {
    http_.upload("/v1/videos/edits", answering([this](const Request& r) {
                   VideoFields given = fields_in(r, "video");
                   if (!given.fields.contains("strength")) given.fields["strength"] = kStrength;
                   return json_answer(200, create_of_video(given, r));
                 }));
    http_.upload("/v1/videos/extensions", answering([this](const Request& r) {
                   VideoFields given = fields_in(r, "video");
                   if (!given.fields.contains("seconds"))
                     throw ApiError(400, "seconds is missing", "missing", "seconds");
                   given.fields["strength"] = 1;
                   return json_answer(200, create_of_video(given, r));
                 }));
    http_.upload("/v1/images/generations", answering([this](const Request& r) { return picture(r); }));
  }

  nlohmann::json create_of_video(const VideoFields& given, const Request& r) {
    if (given.files.empty())
      throw ApiError(400, "video is missing: a file in a form, or {\"id\": ...}", "missing",
                     "video");
    return create(given, r);
  }

  nlohmann::json create(const VideoFields& given, const Request& r) {
    return once(given, r,
                [&] { return videos_.create(given.fields, given.files, r.header("idempotency-key")); });
  }

  // The video that make() makes, or that of the same client's attempt before this one.
  template <class F>
  nlohmann::json once(const VideoFields& given, const Request& r, F make) {
    const std::string attempt = r.header("x-stainless-retry-count");
    if (!r.header("idempotency-key").empty() || attempt.empty()) return make();
    std::string asked = r.path + given.fields.dump();
    for (const auto& one : given.files) asked += one.field + core::sha256_of_file(one.file);
    Retries::Attempt here(retries_, core::sha256(asked), attempt != "0");
    if (!here.known().empty()) try {
        return videos_.get(here.known());
      } catch (const ApiError&) {  // it was deleted
      }
    nlohmann::json out = make();
    here.made(out.at("id"));
    return out;
  }

  // A video of one frame. It has a thread of the server until it is made, or its client is gone; with a key, the client
  // may come back for it.
  Answer picture(const Request& r) {
    nlohmann::json body = json_in(r);
    for (const auto& [name, only] : {std::pair{"n", nlohmann::json(1)}, {"response_format", "b64_json"}}) {
      if (!body.value(name, nlohmann::json()).is_null() && body.at(name) != only)
        throw ApiError(400, fmt::format("{}: expected {}", name, only.dump()), "invalid_value", name);
      body.erase(name);
    }
    VideoFields given = fields_of(body);
    given.fields["num_frames"] = 1;
    const Waiting here(waiting_);
    const std::string key = r.header("idempotency-key");
    if (key.empty()) given.fields["awaited"] = true;  // by this request alone
    const nlohmann::json made = once(given, r, [&] {
      nlohmann::json out = videos_.create(given.fields, {}, key);
      if (videos_.wait(out.at("id"), r.is_gone)) return out;
      if (key.empty()) videos_.remove(out.at("id"));
      throw ApiError(499, "the client is gone", "cancelled");  // as nginx counts it
    });
    const std::string id = made.at("id");
    std::ifstream in(videos_.content(id, "picture.png"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (bytes.empty()) throw ApiError(500, "the picture of video " + id + " is missing", "not_found");
    return json_answer(200, {{"created", made.at("created_at")},
                             {"data", nlohmann::json::array({{{"b64_json", core::base64(bytes)}}})}});
  }

  void look() {
    http_.get("/v1/videos", answering([this](const Request& r) {
                const std::string order = r.parameter("order"), limit = r.parameter("limit");
                if (!order.empty() && order != "asc" && order != "desc")
                  throw ApiError(400, "order: expected asc or desc", "invalid_value", "order");
                return json_answer(200, videos_.list(r.parameter("after"), page_size(limit), order == "asc"));
              }));
    http_.get("/v1/videos/{id}", answering([this](const Request& r) {
                return json_answer(200, videos_.get(r.places.at("id")));
              }));
    http_.get("/v1/videos/{id}/content", answering([this](const Request& r) { return content(r); }));
  }

  void about() {
    http_.get("/v1/models", answering([this](const Request&) { return json_answer(200, videos_.models()); }));
    http_.get("/health", answering([this](const Request&) {
                const nlohmann::json now = videos_.health();
                return json_answer(now.at("status") == "ok" ? 200 : 503, now);
              }));
    http_.get("/metrics", answering([this](const Request&) {
                return Answer{.type = "text/plain; version=0.0.4", .body = videos_.metrics()};
              }));
  }

  // file: the name of the file that a form may have, or of the video of this server that is meant.
  VideoFields fields_in(const Request& r, const std::string& file = "input_reference") const {
    const std::string type = r.header("content-type");
    VideoFields out = type.starts_with("multipart/form-data")
                          ? fields_of(read_form(r.upload->path(), type, uploads_), file)
                          : fields_of(json_in(r), file);
    if (!out.video.empty()) out.files.push_back({"input_reference", videos_.content(out.video)});
    return out;
  }

  // An object.
  static nlohmann::json json_in(const Request& r) {
    if (!r.header("content-type").starts_with("application/json"))
      throw ApiError(415, "expected a body of type multipart/form-data or application/json",
                     "unsupported_type");
    if (std::filesystem::file_size(r.upload->path()) > kJsonBytes)
      throw ApiError(413, fmt::format("JSON of more than {} bytes", kJsonBytes), "too_large");
    std::ifstream in(r.upload->path());
    nlohmann::json out = core::parse_facts(std::string(std::istreambuf_iterator<char>(in), {}));
    if (!out.is_object()) throw ApiError(400, "the body is not a JSON object", "invalid_json");
    return out;
  }

  static int64_t page_size(const std::string& text) {
    if (text.empty()) return 20;
    char* end = nullptr;
    const long out = std::strtol(text.c_str(), &end, 10);
    if (*end != '\0' || out < 1 || out > kMostOfPage)
      throw ApiError(400, fmt::format("limit: expected 1 to {}", kMostOfPage), "invalid_value", "limit");
    return out;
  }

  Answer content(const Request& r) const {
    static const std::map<std::string, std::pair<const char*, const char*>> kFiles{
        {"", {"video.mp4", "video/mp4"}},
        {"video", {"video.mp4", "video/mp4"}},
        {"thumbnail", {"thumbnail.webp", "image/webp"}},
        {"spritesheet", {"spritesheet.jpg", "image/jpeg"}},
        {"drift", {"drift.json", "application/json"}}};
    const std::string id = r.places.at("id");
    const auto of = kFiles.find(r.parameter("variant"));
    if (of == kFiles.end())
      throw ApiError(400, "variant: expected video, thumbnail, spritesheet or drift", "invalid_value",
                     "variant");
    const auto [name, type] = of->second;
    if (r.parameter("live") != "1" || type != std::string("video/mp4")) {
      auto out = web::file_answer(r, videos_.content(id, name).string(), type);
      if (!out)
        throw ApiError(404,
                       fmt::format("video {} has no {}{}", id, name,
                                   of->first == "drift" ? ": it is measured from three seconds on" : ""),
                       "not_found", "id");
      return std::move(*out);
    }
    const auto viewer = std::make_shared<Videos::Viewer>(Videos::Viewer{.id = id});
    videos_.next(*viewer);  // throws while a status can tell why
    viewer->at = 0;
    Answer out{.type = "video/mp4", .headers = {{"Cache-Control", "no-store"}}};
    out.next = [this, viewer] { return videos_.next(*viewer); };
    return out;
  }

  // Counts who waits.
  class Waiting {
   public:
    explicit Waiting(std::atomic<int>& all) : all_(all) {
      if (++all_ <= kMostWaiting) return;
      --all_;
      ApiError busy(429, "other pictures are being made; try again", "queue_full");
      busy.headers = {{"Retry-After", "2"}};
      throw busy;
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting() { --all_; }

   private:
    std::atomic<int>& all_;
  };

  web::Server& http_;
  Videos& videos_;
  const std::filesystem::path folder_, uploads_;
  std::atomic<int> waiting_{0};
  Retries retries_;
};

// A connection and its file: more than the 1024 of most systems.
void allow_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 4 * kConnections));
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Answers until the caller stops the server. Then the work that has begun may end within `drain`, and the answers that
// have begun within what is left of it; meanwhile the models' processes end.
void run(web::Server& http, Videos& videos, const ServeCall& call) {
  using std::chrono::steady_clock;
  std::optional<steady_clock::time_point> end;
  std::future<void> stopping;
  http.run([&] {
    if (!call.stopped()) return false;
    const auto now = steady_clock::now();
    if (!end) {
      end = now + std::chrono::seconds(call.settings.drain);
      videos.drain();
    }
    if (!stopping.valid()) {
      if (now < *end && !videos.is_idle()) return false;
      end = std::max(*end, now + kLastAnswers);
      http.end(kLastMessage);
      stopping = std::async(std::launch::async, [&videos] { videos.stop(); });
    }
    return stopping.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
           (http.open_connections() == 0 || now >= *end);
  });
  stopping.get();
}

}  // namespace

void serve(const ServeCall& call) {
  const Settings& settings = call.settings;
  const auto uploads = settings.folder / "uploads";
  allow_open_files();
  Videos videos(settings, call.program);  // which holds the folder
  std::filesystem::remove_all(uploads);
  std::filesystem::create_directories(uploads);
  web::Limits limits;
  limits.connections = kConnections;
  limits.upload_bytes = static_cast<uint64_t>(settings.upload);
  limits.upload_folder = uploads;
  limits.body_bytes = kJsonBytes;
  limits.write = std::chrono::seconds(60);  // a viewer may pause, and systems free their buffers in lumps
  web::Server http(limits);
  http.set_headers(web::page_headers("media-src 'self' blob:; "));  // blob: a video while it grows
  web::serve_pages(http, page_files());
  Api api(http, videos, settings);
  serve_live(http, videos);
  const int port = http.bind(settings.port, settings.host);
  if (port == 0) throw Error(KINORA_ERROR_FAILED, web::port_problem(settings.port, errno, settings.host));
  guard_with(http, settings.token, port, settings.read_token);
  if (!videos.ready(call.stopped)) return;
  call.ready(fmt::format("http://{}:{}/", settings.host, port));
  run(http, videos, call);
}

}  // namespace kinora::serve

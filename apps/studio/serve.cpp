#include "apps/studio/serve.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <httplib.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include "apps/studio/pictures.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"
#include "plugins/jobs/report/page_files.hpp"

namespace kinora::studio {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr size_t kThreads = 256;  // each open connection has one, also while it is idle
constexpr size_t kPicturesBytes = 64 << 20, kLargestRequest = 16 << 20, kChunk = 256 << 10;

void answer(Response& response, int status, const json& body) {
  response.status = status;
  response.set_header("Cache-Control", "no-store");
  response.set_content(body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json");
}

int status_of(int32_t code) {
  return code == KINORA_ERROR_NOT_FOUND ? 404 : code == KINORA_ERROR_INVALID ? 400 : 500;
}

// Answers with f's JSON, or with its error as {"error"}.
void guarded(Response& response, const std::function<json()>& f) {
  try {
    answer(response, 200, f());
  } catch (const Error& e) {
    answer(response, status_of(e.code()), {{"error", e.what()}});
  } catch (const std::exception& e) {
    answer(response, 500, {{"error", e.what()}});
  }
}

Asked asked_of(const Request& request) {
  return {request.method != "GET" && request.method != "HEAD",
          request.get_header_value("Host"),
          request.get_header_value("Cookie"),
          request.get_header_value("Origin"),
          request.get_header_value("Content-Type"),
          request.has_param("t") ? request.get_param_value("t") : ""};
}

struct OpenFile {
  explicit OpenFile(const std::filesystem::path& path) : file(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat about {};
    if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode))
      size = static_cast<size_t>(about.st_size);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (file >= 0) close(file);
  }
  int file = -1;
  size_t size = 0;
};

// The library does not compare requested ranges with the file's size. False: the range does not fit, and 416
// was answered.
bool range_fits(const Request& request, Response& response, size_t size) {
  if (request.ranges.empty()) return true;
  auto& [first, last] = const_cast<Request&>(request).ranges.front();  // the library's own object, read later
  const bool fits = request.ranges.size() == 1 && first < static_cast<ssize_t>(size);
  if (last >= static_cast<ssize_t>(size)) last = static_cast<ssize_t>(size) - 1;
  if (first < 0 && last > static_cast<ssize_t>(size)) last = static_cast<ssize_t>(size);
  if (fits) return true;
  response.status = 416;
  response.set_header("Content-Range", "bytes */" + std::to_string(size));
  return false;
}

void send_file(const Request& request, Response& response, const Media& media) {
  const auto file = std::make_shared<OpenFile>(media.path);
  if (file->size == 0) return answer(response, 404, {{"error", "there is nothing to play"}});
  if (!range_fits(request, response, file->size)) return;
  if (!response.has_header("Cache-Control")) response.set_header("Cache-Control", "no-cache");
  response.set_content_provider(
      file->size, media.type, [file](size_t from, size_t length, httplib::DataSink& sink) {
        std::vector<char> bytes(std::min(length, kChunk));
        const ssize_t n = pread(file->file, bytes.data(), bytes.size(), static_cast<off_t>(from));
        return n > 0 && sink.write(bytes.data(), static_cast<size_t>(n));
      });
}

// The studio's routes are literal paths, so a name in a request is always looked up and never joined to a
// path.
class Server {
 public:
  Server(core::Runtime& runtime, Studio& studio) : studio_(studio), pictures_(runtime, kPicturesBytes) {
    http_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    http_.set_payload_max_length(kLargestRequest);
    // A browser does not repeat a request whose connection, opened ahead of need, is closed just then.
    http_.set_keep_alive_timeout(20);
    http_.set_read_timeout(5);
    http_.set_write_timeout(5);  // a browser with enough of a video buffered requests the rest later
    http_.set_tcp_nodelay(
        true);  // else the body of an answer may wait 40 ms for the acknowledgement of its head
    http_.set_socket_options(
        [](socket_t socket) {  // not SO_REUSEPORT: a second studio must not share the port
          const int yes = 1;
          setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        });
    http_.set_default_headers(
        {{"Content-Security-Policy",
          "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
         {"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"},
         {"Cross-Origin-Resource-Policy", "same-origin"},
         {"Cross-Origin-Opener-Policy", "same-origin"}});
    queries();
    changes();
    files();
  }

  void run(const ServeOptions& options) {
    errno = 0;
    const int port = options.port == 0                               ? http_.bind_to_any_port("127.0.0.1")
                     : http_.bind_to_port("127.0.0.1", options.port) ? options.port
                                                                     : -1;
    if (port < 0) throw Error(KINORA_ERROR_INVALID, port_problem(options.port, errno));
    const Guard guard(new_token(), port);
    guarded_by(guard);
    std::thread server([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    options.ready(guard.address());
    while (!options.stopped()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    http_.stop();
    server.join();
  }

 private:
  void guarded_by(const Guard& guard) {
    http_.set_pre_routing_handler([guard](const Request& request, Response& response) {
      const Asked asked = asked_of(request);
      if (const std::string why = guard.refusal(asked); !why.empty()) {
        answer(response, 403, {{"error", why}});
        return httplib::Server::HandlerResponse::Handled;
      }
      if (!asked.token.empty()) response.set_header("Set-Cookie", guard.cookie());
      return httplib::Server::HandlerResponse::Unhandled;
    });
  }

  void query(const char* path, json (Studio::*f)(const Parameters&)) {
    http_.Get(path, [this, f](const Request& request, Response& response) {
      guarded(response, [&] { return (studio_.*f)(request.params); });
    });
  }

  void change(const char* path, json (Studio::*f)(const json&)) {
    http_.Post(path, [this, f](const Request& request, Response& response) {
      guarded(response, [&] { return (studio_.*f)(json::parse(request.body, nullptr, false)); });
    });
  }

  void queries() {
    http_.Get("/api/state",
              [this](const Request&, Response& r) { guarded(r, [&] { return studio_.state(); }); });
    query("/api/clips", &Studio::clips);
    query("/api/ids", &Studio::ids);
    query("/api/where", &Studio::where);
    query("/api/histograms", &Studio::histograms);
    query("/api/bound", &Studio::bound);
    query("/api/map", &Studio::map);
    query("/api/place", &Studio::place);
    query("/api/clip", &Studio::clip);
    query("/api/shots", &Studio::shots);
  }

  void changes() {
    change("/api/edit", &Studio::edit);
    change("/api/copies", &Studio::copies);
    change("/api/view", &Studio::save_view);
    http_.Post("/api/undo",
               [this](const Request&, Response& r) { guarded(r, [&] { return studio_.undo(); }); });
    http_.Post("/api/redo",
               [this](const Request&, Response& r) { guarded(r, [&] { return studio_.redo(); }); });
  }

  void files() {
    http_.Get("/video", [this](const Request& request, Response& response) {
      with_clip(request, response,
                [&](const std::string& id) { send_file(request, response, studio_.media(id)); });
    });
    http_.Get("/picture", [this](const Request& request, Response& response) {
      with_clip(request, response, [&](const std::string& id) { send_picture(request, response, id); });
    });
    for (const PageFile& file : page_files())
      http_.Get(file.path == "/index.html" ? "/" : std::string(file.path),
                [file](const Request&, Response& response) {
                  response.set_header("Cache-Control", "no-cache");
                  response.set_content(file.content.data(), file.content.size(), file.type);
                });
  }

  static void with_clip(const Request& request, Response& response,
                        const std::function<void(const std::string&)>& f) {
    try {
      f(request.has_param("id") ? request.get_param_value("id") : "");
    } catch (const Error& e) {
      answer(response, status_of(e.code()), {{"error", e.what()}});
    }
  }

  void send_picture(const Request& request, Response& response, const std::string& id) {
    const PictureSource source = studio_.picture(id);
    const std::string tag = entity_tag(source);
    response.set_header("Cache-Control", "private, no-cache");
    response.set_header("ETag", tag);
    if (request.get_header_value("If-None-Match") == tag) {
      response.status = 304;
      return;
    }
    if (source.is_preview) return send_file(request, response, {source.path, false, "image/webp", {}});
    const auto picture = pictures_.get(source);
    if (!picture) return answer(response, 404, {{"error", "the clip has no picture"}});
    response.set_content(*picture, "image/jpeg");
  }

  Studio& studio_;
  Pictures pictures_;
  httplib::Server http_;
};

}  // namespace

std::string port_problem(int port, int error) {
  const std::string what = fmt::format("port {} of 127.0.0.1 ", port);
  if (error == EACCES)
    return what + "needs root; choose a port from 1024 on with --port, or leave out --port";
  if (error == EADDRINUSE)
    return what + "is in use by another program. Choose another with --port, or leave out --port";
  return what + "cannot be had: " + std::strerror(error) + ". Choose another with --port";
}

void serve(core::Runtime& runtime, Studio& studio, const ServeOptions& options) {
  Server(runtime, studio).run(options);
}

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw Error(KINORA_ERROR_FAILED, "the system's random numbers are unavailable");
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

std::string Guard::cookie_name() const { return fmt::format("kinora_studio_{}", port_); }

std::string Guard::cookie() const {
  return cookie_name() + "=" + token_ + "; Path=/; HttpOnly; SameSite=Strict";
}

std::string Guard::address() const { return fmt::format("http://127.0.0.1:{}/?t={}", port_, token_); }

bool Guard::is_token(std::string_view text) const {
  return text.size() == token_.size() && CRYPTO_memcmp(text.data(), token_.data(), token_.size()) == 0;
}

std::string Guard::refusal(const Asked& asked) const {
  const std::string here = fmt::format("127.0.0.1:{}", port_), local = fmt::format("localhost:{}", port_);
  if (asked.host != here && asked.host != local) return "the Host header does not name this studio";
  bool known = is_token(asked.token);
  const std::string name = cookie_name() + "=";
  std::string_view rest = asked.cookies;
  while (!rest.empty()) {
    const auto end = rest.find(';');
    std::string_view one = rest.substr(0, end);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(name)) known |= is_token(one.substr(name.size()));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  if (!known) return "open the address that kinora studio printed; it changes with every start";
  if (!asked.origin.empty() && asked.origin != "http://" + asked.host)
    return "requests from other sites are refused";
  if (asked.changes && (asked.origin.empty() || !asked.content_type.starts_with("application/json")))
    return "changes must come from the studio's page, as JSON";
  return "";
}

}  // namespace kinora::studio

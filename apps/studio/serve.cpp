#include "apps/studio/serve.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "apps/studio/pictures.hpp"
#include "apps/web/server.hpp"
#include "core/base/digest.hpp"
#include "core/base/status.hpp"
#include "plugins/jobs/report/page_files.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;
using web::Answer;
using web::Request;

constexpr size_t kPicturesBytes = 64 << 20;

Answer answer(int status, const json& body) {
  return {.status = status,
          .type = "application/json",
          .headers = {{"Cache-Control", "no-store"}},
          .body = body.dump(-1, ' ', false, json::error_handler_t::replace)};
}

int status_of(int32_t code) {
  return code == KINORA_ERROR_NOT_FOUND ? 404 : code == KINORA_ERROR_INVALID ? 400 : 500;
}

// f's answer, or its error as {"error"}.
template <class F>
Answer guarded(F f) {
  try {
    return f();
  } catch (const Error& e) {
    return answer(status_of(e.code()), {{"error", e.what()}});
  } catch (const std::exception& e) {
    return answer(500, {{"error", e.what()}});
  }
}

Asked asked_of(const Request& request) {
  return {request.method != "GET" && request.method != "HEAD",
          request.header("host"),
          request.header("cookie"),
          request.header("origin"),
          request.header("content-type"),
          request.parameter("t"),
          request.owner};
}

Answer send_file(const Request& request, const Media& media) {
  auto out = web::file_answer(request, media.path, media.type);
  return out ? std::move(*out) : answer(404, {{"error", "there is nothing to play"}});
}

// The studio's routes are literal paths, so a name in a request is always looked up and never joined to a
// path.
class Server {
 public:
  Server(core::Runtime& runtime, Studio& studio) : studio_(studio), pictures_(runtime, kPicturesBytes) {
    http_.set_headers({{"Content-Security-Policy",
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
    const int port = http_.bind(options.port);
    if (port == 0) throw Error(KINORA_ERROR_INVALID, port_problem(options.port, errno));
    const Guard guard(new_token(), port);
    http_.set_guard([guard](const Request& request, web::Headers& added) -> std::optional<Answer> {
      const Asked asked = asked_of(request);
      if (const std::string why = guard.refusal(asked); !why.empty()) return answer(403, {{"error", why}});
      if (!asked.token.empty()) added.emplace_back("Set-Cookie", guard.cookie(asked.owner));
      return std::nullopt;
    });
    options.ready(guard.address());
    http_.run(options.stopped);
  }

 private:
  void query(const char* path, json (Studio::*f)(const Parameters&)) {
    http_.get(path, [this, f](const Request& request) {
      return guarded([&] { return answer(200, (studio_.*f)(request.parameters)); });
    });
  }

  void change(const char* path, json (Studio::*f)(const json&)) {
    http_.post(path, [this, f](const Request& request) {
      return guarded([&] { return answer(200, (studio_.*f)(json::parse(request.body, nullptr, false))); });
    });
  }

  void queries() {
    http_.get("/api/state",
              [this](const Request&) { return guarded([&] { return answer(200, studio_.state()); }); });
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
    http_.post("/api/undo",
               [this](const Request&) { return guarded([&] { return answer(200, studio_.undo()); }); });
    http_.post("/api/redo",
               [this](const Request&) { return guarded([&] { return answer(200, studio_.redo()); }); });
  }

  void files() {
    http_.get("/video", [this](const Request& request) {
      return guarded([&] {
        Answer out = send_file(request, studio_.media(request.parameter("id")));
        if (out.status < 300) out.headers.emplace_back("Cache-Control", "no-cache");
        return out;
      });
    });
    http_.get("/picture",
              [this](const Request& request) { return guarded([&] { return picture(request); }); });
    for (const PageFile& file : page_files())
      http_.get(file.path == "/index.html" ? "/" : std::string(file.path), [file](const Request&) {
        return Answer{
            .type = file.type, .headers = {{"Cache-Control", "no-cache"}}, .body = std::string(file.content)};
      });
  }

  Answer picture(const Request& request) {
    const PictureSource source = studio_.picture(request.parameter("id"));
    const std::string tag = entity_tag(source);
    Answer out{.status = 304};
    if (request.header("if-none-match") != tag) {
      if (source.is_preview) {
        out = send_file(request, {source.path, false, "image/webp", {}});
      } else if (const auto made = pictures_.get(source)) {
        out = {.type = "image/jpeg", .body = *made};
      } else {
        return answer(404, {{"error", "the clip has no picture"}});
      }
    }
    if (out.status == 404) return out;
    out.headers.emplace_back("Cache-Control", "private, no-cache");
    out.headers.emplace_back("ETag", tag);
    return out;
  }

  Studio& studio_;
  Pictures pictures_;
  web::Server http_;  // last: its handlers end before what they use
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

std::string Guard::cookie_value(const std::string& owner) const {
  return core::sha256("cookie of the studio " + token_ + " for user " + owner);
}

std::string Guard::cookie(const std::string& owner) const {
  return cookie_name() + "=" + cookie_value(owner) + "; Path=/; HttpOnly; SameSite=Strict";
}

std::string Guard::address() const { return fmt::format("http://127.0.0.1:{}/?t={}", port_, token_); }

namespace {
// Takes the same time for every text of this length.
bool is_secret(std::string_view text, std::string_view secret) {
  return text.size() == secret.size() && CRYPTO_memcmp(text.data(), secret.data(), secret.size()) == 0;
}
}  // namespace

std::string Guard::refusal(const Asked& asked) const {
  const std::string here = fmt::format("127.0.0.1:{}", port_), local = fmt::format("localhost:{}", port_);
  if (asked.host != here && asked.host != local) return "the Host header does not name this studio";
  bool known = is_secret(asked.token, token_);
  const std::string name = cookie_name() + "=", value = cookie_value(asked.owner);
  std::string_view rest = asked.cookies;
  while (!rest.empty()) {
    const auto end = rest.find(';');
    std::string_view one = rest.substr(0, end);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(name)) known |= is_secret(one.substr(name.size()), value);
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
